"""How deep the brackets of a record may be nested: a limit of the format, judged without recursion, so that it depends on the
bytes alone and not on how deep the reader's own stack happens to be (R11)."""

from __future__ import annotations

from typing import Final

MAX_DEPTH: Final = 16
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def shallow(payload: bytes) -> bool:
    """Whether the brackets outside of strings are at most `MAX_DEPTH` deep: each round takes the innermost away."""
    if payload.count(b"{") + payload.count(b"[") <= MAX_DEPTH:
        return True
    # Without escapes every second piece between quotes is a string. In linear time, whatever the bytes are.
    bare = payload.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    brackets = b"".join(bare).translate(None, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return not brackets

"""How a topic's record stands in the body of a frame: its key's length, a space, the key, the payload.

    - PAYLOAD             a record without a key
    5 orderPAYLOAD        one with the key `order`

The frame itself knows nothing of keys, and `tail -f` shows both.
"""

from __future__ import annotations

from pares.core.errors import LedgerUnavailable


def packed(key: bytes | None, payload: bytes) -> bytes:
    return b"- %b" % payload if key is None else b"%d %b%b" % (len(key), key, payload)


def unpacked(body: bytes) -> tuple[bytes | None, bytes]:
    """The key and the payload. Raises `LedgerUnavailable` for a body that no topic has written."""
    at = body.find(b" ") + 1
    length = body[: at - 1]
    if length == b"-":
        return None, body[at:]
    if not length.isdigit() or at + int(length) > len(body):
        raise LedgerUnavailable(
            f"a record of a topic begins with {body[:20]!r}, which says nothing of its key: it was not written by a topic"
        )
    end = at + int(length)
    return body[at:end], body[end:]

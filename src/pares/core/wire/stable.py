"""A hash of names and keys that is part of what logs say: the same in every process, version and language, for ever."""

from __future__ import annotations

from hashlib import blake2b


def stable_hash(key: str | bytes) -> int:
    """BLAKE2b of `key` with a digest of 8 bytes, big-endian; a text is its UTF-8. Raises `UnicodeEncodeError` for lone
    surrogates."""
    return int.from_bytes(blake2b(key.encode() if isinstance(key, str) else key, digest_size=8).digest(), "big")

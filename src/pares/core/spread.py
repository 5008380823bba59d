"""Which partition a role, or a key, belongs to: the same for everybody, for ever (docs/neli.md).

Role number j belongs to partition j mod M. A name that is a whole number is its own j; any other name's j is a hash of it,
which is part of the format: 64 bits of BLAKE2b, big-endian, of the name in UTF-8. So a role that is added moves no other, and
members need not agree on a list of roles: the mapping is total, whatever M and the roles are (with more partitions than roles
some partitions have nothing to do, with fewer several roles share one).
"""

from __future__ import annotations

from hashlib import blake2b


def stable_hash(key: str | bytes) -> int:
    """64 bits of `key`, the same in every process, version and language. Raises `UnicodeEncodeError` for lone surrogates."""
    return int.from_bytes(blake2b(key.encode() if isinstance(key, str) else key, digest_size=8).digest(), "big")


def role_number(role: str) -> int:
    """The j of a role: its own value for a whole number as people write it ("7", not "07"), else the hash of its name."""
    if role.isascii() and role.isdigit() and (role == "0" or role[0] != "0"):
        return int(role)
    return stable_hash(role)


def partition_of_role(role: str, partitions: int, seats: int = 1, seat: int = 0) -> int:
    """j mod M. With several seats, the partitions are as many blocks of equal size, and each seat has the same place in its
    own block; partitions that are left over are nobody's."""
    block = partitions // seats
    return seat * block + role_number(role) % block


def seat_of_partition(partition: int, partitions: int, seats: int = 1) -> int:
    """Which seat, of all its roles, a partition stands for; `seats` or above for one that is left over."""
    return partition // (partitions // seats)

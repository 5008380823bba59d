"""Which partition a role, or a key, belongs to: the same for everybody, for ever (docs/neli.md).

Role number j belongs to partition j mod M. A name that is a whole number is its own j. Any other name gets its j from the log
(`numbering`), 0, 1, 2 ... in the order in which the log first names them: so roles share out evenly, with as many partitions as
roles each has one of its own, and a role that is added moves no other. A name that nobody has declared, and every name in a
group that older members are in, has a hash for its j, which is part of the format: 64 bits of BLAKE2b, big-endian, of the name
in UTF-8. The mapping is total, whatever M and the roles are (with more partitions than roles some partitions have nothing to
do, with fewer several roles share one).
"""

from __future__ import annotations

from hashlib import blake2b


def stable_hash(key: str | bytes) -> int:
    """64 bits of `key`, the same in every process, version and language. Raises `UnicodeEncodeError` for lone surrogates."""
    return int.from_bytes(blake2b(key.encode() if isinstance(key, str) else key, digest_size=8).digest(), "big")


def is_number(role: str) -> bool:
    """Whether a name is its own j: a whole number as people write it ("7", not "07")."""
    return role.isascii() and role.isdigit() and (role == "0" or role[0] != "0")


def role_number(role: str) -> int:
    """The j of a role that the log gives no number: its own value for a whole number, else the hash of its name."""
    return int(role) if is_number(role) else stable_hash(role)


def partition_of_number(number: int, partitions: int, seats: int = 1, seat: int = 0) -> int:
    """j mod M. With several seats, the partitions are as many blocks of equal size, and each seat has the same place in its
    own block; partitions that are left over are nobody's."""
    block = partitions // seats
    return seat * block + number % block


def partition_of_role(role: str, partitions: int, seats: int = 1, seat: int = 0) -> int:
    """`partition_of_number`, of a role that the log gives no number."""
    return partition_of_number(role_number(role), partitions, seats, seat)


def seat_of_partition(partition: int, partitions: int, seats: int = 1) -> int:
    """Which seat, of all its roles, a partition stands for; `seats` or above for one that is left over."""
    return partition // (partitions // seats)

"""What mutants of consumption are played with, so that the rule that each of them breaks is needed."""

from __future__ import annotations

from typing import Any, Final

AT_MOST: Final[dict[str, Any]] = {
    "delivery": "at-most-once",
    "records": 20.0,
    "partitions": 2,
    "members": 3,
    "most": (),
    "one_by_one": False,
    "ranges": False,
    "divided": (),
}
AT_LEAST: Final[dict[str, Any]] = {
    "delivery": "at-least-once",
    "transactions": False,
    "records": 20.0,
    "partitions": 3,
    "members": 3,
    "most": (),
    "one_by_one": False,
    "ranges": False,
    "divided": (),
}
ONE_BY_ONE: Final[dict[str, Any]] = {
    **AT_LEAST,
    "one_by_one": True,
    "order": "none",
    "concurrency": 5,
    "keys": 3,
    "fails": 0.2,
    "rejects": 0.0,
    "retries": 3,
}
RANGES: Final[dict[str, Any]] = {**AT_LEAST, "partitions": 1, "ranges": True, "slots": 4, "whole": False}
FROZEN: Final[dict[str, float]] = {"freeze": 3.0, "freeze_at": 3.0, "crash": 1.0}
KEYED: Final[dict[str, Any]] = {
    **AT_LEAST,
    "partitions": 1,
    "divided": (4, 4, 4),
    "whole": False,
    "order": "key",
    "keys": 10,
}
MIXED: Final[dict[str, Any]] = {
    **KEYED,
    "divided": (4, 0, 3),
    "out": 1,
    "workers": 1,
    "faults": {"close": 2.0, "crash": 2.0},
}
TRANSACTIONS: Final[dict[str, Any]] = {**AT_LEAST, "transactions": True}

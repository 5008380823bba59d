"""Spark on the log: a data source, the audit of what a group and its sink did, and the report of it.

Nothing of Spark is imported before it is used: a program that only leads pays nothing for this package, and one without the
`spark` extra, or without a Java, is told so when it asks for an audit. The two ways in have modules of their own name:
``from pares.spark.audit import audit`` and ``from pares.spark.session import session``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pares.spark.audit import warm_up
    from pares.spark.histories import History, Manifest, Overtaken, history
    from pares.spark.java import JavaHome, find_java, no_java_message
    from pares.spark.report import render, write_report
    from pares.spark.result import AuditResult
    from pares.spark.session import prestart
    from pares.spark.source import LedgerSource, register
    from pares.spark.verdict import Promise

__all__ = [
    "AuditResult",
    "History",
    "JavaHome",
    "LedgerSource",
    "Manifest",
    "Overtaken",
    "Promise",
    "find_java",
    "history",
    "no_java_message",
    "prestart",
    "register",
    "render",
    "warm_up",
    "write_report",
]

_WHERE: Final = {
    "AuditResult": "result",
    "History": "histories",
    "JavaHome": "java",
    "LedgerSource": "source",
    "Manifest": "histories",
    "Overtaken": "histories",
    "Promise": "verdict",
    "find_java": "java",
    "history": "histories",
    "no_java_message": "java",
    "prestart": "session",
    "register": "source",
    "render": "report",
    "warm_up": "audit",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"pares.spark.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Spark on the log: a data source, the audit of what a group and its sink did, its report, and jobs that do not run twice.

Nothing of Spark is imported before it is used: a program that only leads pays nothing for this package, and one without the
`spark` extra, or without a Java, is told so when it asks for an audit. The two ways in have modules of their own name:
``from pares.spark.audit import audit`` and ``from pares.spark.session import session``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pares.spark.audit import warm_up
    from pares.spark.driving.claims import Dataset, dataset
    from pares.spark.driving.guard import Guard, guard
    from pares.spark.driving.ranges import RangedSource
    from pares.spark.driving.work import Claimed, work
    from pares.spark.histories import History, Manifest, Overtaken, history
    from pares.spark.java import JavaHome, find_java, no_java_message
    from pares.spark.report import render, write_report
    from pares.spark.result import AuditResult
    from pares.spark.session import prestart
    from pares.spark.sinks.base import Sink
    from pares.spark.sinks.delta import DeltaSink
    from pares.spark.sinks.extents import NotContiguous
    from pares.spark.sinks.kafka import KafkaSink
    from pares.spark.sinks.parquet import ParquetSink
    from pares.spark.sinks.postgres import PostgresSink
    from pares.spark.sinks.sqlite import SqliteSink
    from pares.spark.source import LedgerSource, register
    from pares.spark.source.connector import from_kafka
    from pares.spark.verdict import Promise

__all__ = [
    "AuditResult",
    "Claimed",
    "Dataset",
    "DeltaSink",
    "Guard",
    "History",
    "JavaHome",
    "KafkaSink",
    "LedgerSource",
    "Manifest",
    "NotContiguous",
    "Overtaken",
    "ParquetSink",
    "PostgresSink",
    "Promise",
    "RangedSource",
    "Sink",
    "SqliteSink",
    "dataset",
    "find_java",
    "from_kafka",
    "guard",
    "history",
    "no_java_message",
    "prestart",
    "register",
    "render",
    "warm_up",
    "work",
    "write_report",
]

_WHERE: Final = {
    "AuditResult": "result",
    "Claimed": "driving.work",
    "Dataset": "driving.claims",
    "DeltaSink": "sinks.delta",
    "Guard": "driving.guard",
    "History": "histories",
    "JavaHome": "java",
    "KafkaSink": "sinks.kafka",
    "LedgerSource": "source",
    "Manifest": "histories",
    "NotContiguous": "sinks.extents",
    "Overtaken": "histories",
    "ParquetSink": "sinks.parquet",
    "PostgresSink": "sinks.postgres",
    "Promise": "verdict",
    "RangedSource": "driving.ranges",
    "Sink": "sinks.base",
    "SqliteSink": "sinks.sqlite",
    "dataset": "driving.claims",
    "find_java": "java",
    "from_kafka": "source.connector",
    "guard": "driving.guard",
    "history": "histories",
    "no_java_message": "java",
    "prestart": "session",
    "register": "source",
    "render": "report",
    "warm_up": "audit",
    "work": "driving.work",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"pares.spark.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The audit as one page: `report.html` opens offline, in any browser, light or dark, and needs nothing beside itself.

What a reader wants to know stands in this order: were the promises kept; how long did takeovers take, by what they came;
who led what, when, and what was done to whom; the numbers. The page is a frame of HTML, a style sheet and a script (in
`page/`), and the data as JSON in between; the pictures are drawn by the script, because with hundreds of roles only the lanes
in view should be drawn. Names in the data are other people's: they are text, never markup, and can't end the element that
carries them.
"""

from __future__ import annotations

import html
import json
import os
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pares
from pares.core.wire.shown import short_tokens
from pares.spark.page import pictures
from pares.spark.page.pictures import Picture
from pares.spark.plain.moments import COLUMNS as AROUND_COLUMNS
from pares.spark.plain.moments import near, spans
from pares.spark.tables import ROWS

if TYPE_CHECKING:
    from pares.spark.result import AuditResult
    from pares.spark.verdict import Row

MAX_ROWS: Final = 200
"""Rows of a table that are shown; all are in the audit's files."""

_TABLES: Final = {
    "violations": "Violations: what broke a rule, or may have",
    "sink_findings": "What was found at the sink",
    "anomalies": "Anomalies: how far the log and its writers can be relied on",
    "bad_records": "Records that can't be read",
}


def render(result: AuditResult, title: str | None = None) -> str:
    """The page, as text. A function of the audit alone."""
    page = _part("report.html")
    name = title or f"Audit of {result.group}"
    filled = {
        "title": html.escape(name),
        "style": _part("report.css"),
        "script": _part("report.js"),
        "data": _safe(json.dumps(_data(result, name), separators=(",", ":"), ensure_ascii=False, default=_text)),
    }
    for key, value in filled.items():
        page = page.replace("{{" + key + "}}", value, 1)
    return page


def write_report(result: AuditResult, path: str | Path, title: str | None = None) -> Path:
    """Writes the page to `path`, whole or not at all, and returns where."""
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name}.draft")
    draft.write_text(render(result, title), encoding="utf-8")
    os.replace(draft, place)
    return place


def _data(result: AuditResult, title: str) -> dict[str, Any]:
    summary, picture, members = dict(result.summary), _picture(result), _members(result)
    held = _held(result, "terms")
    terms = [row for row in held if row["from_ms"] is not None or row["truncated"]]
    drawn = sorted(terms, key=lambda row: row["token"])
    left_out = max(0, summary["terms"] - len(held))
    return {
        "title": title,
        "group": result.group,
        "ledger": result.ledger,
        "when": datetime.fromtimestamp(summary["from_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "summary": summary,
        "cut_off": result.cut_off,
        "promises": [{**promise._asdict(), "evidence": short_tokens(promise.evidence)} for promise in result.promises],
        "exit_code": result.exit_code,
        "left_out": left_out,
        "members": members,
        "members_left_out": max(0, summary["members"] - len(members)),
        "terms": [_term(row, summary) for row in drawn],
        "empty": sorted(
            set() if left_out else {row["role"] for row in _held(result, "gaps")} - {row["role"] for row in drawn}
        ),
        "overlaps": [
            [row["role"], row["seat"], row["from_ms"], row["to_ms"], bool(row["expected"]), bool(row["certain"])]
            for row in _held(result, "overlaps")
        ],
        "takeovers": [
            [row["cause"], row["ms"], row["role"], row["from_member"], row["to_member"], row["at_ms"], row["measured"]]
            for row in picture.dots
        ],
        "faults": [[row["at_ms"], row["member"], row["fault"]] for row in _held(result, "faults")],
        "moments": [
            {**moment, "why": short_tokens(moment["why"]), "records": _near(picture, moment)}
            for moment in picture.moments
        ],
        "heat": picture.heat._asdict(),
        "lineage": _lineage(result),
        "tables": [_table(result, name, heading) for name, heading in _TABLES.items() if name in result.tables],
    }


def _held(result: AuditResult, name: str) -> list[Row]:
    """The first rows of a table: no more than an audit by Spark holds. One without Spark holds all, and its page would grow
    with the log. [a page of 20 MB, which draws a bar for each of 100,000 terms]"""
    return result.rows(name)[:ROWS]


def _picture(result: AuditResult) -> Picture:
    """What the audit has drawn; of one that has not, as of all groups of a log, it is made now, without records."""
    if result.picture is not None:
        return result.picture
    times = result.summary["from_ms"], result.summary["to_ms"]
    names = [name for name in pictures.TABLES if name in result.tables]
    if any(result.cut(name) for name in names):
        return pictures.of_frames(result.frames, *times, lambda _: [])
    return pictures.of_rows({name: result.rows(name) for name in names}, *times, lambda _: [])


def _near(picture: Picture, moment: Row) -> list[list[Any]]:
    """The records around those that a moment names."""
    return [[row[name] for name in AROUND_COLUMNS] for row in near(picture.around, spans([moment]))]


def _lineage(result: AuditResult) -> list[list[str]]:
    """What the page was made of, by what."""
    summary = result.summary
    last = summary.get("records_to")
    return [
        ["log", result.ledger],
        ["group", result.group],
        ["records", f"offsets {summary['records_from']} to {'the end' if last is None else last}"],
        [
            "rows",
            ", ".join(
                f"{name} {min(result.tables[name].num_rows, ROWS)}{_more(result, name)}" for name in result.tables
            ),
        ],
        ["made by", f"pares {pares.__version__}"],
    ]


def _more(result: AuditResult, name: str) -> str:
    return " and more" if result.cut(name) or result.tables[name].num_rows > ROWS else ""


def _members(result: AuditResult) -> list[dict[str, Any]]:
    """All that may lead, in the order in which they came: as many as the page's head says, unless they are very many."""
    rows = [row for row in _held(result, "balance") if not row["administrator"]]
    return [
        {
            "id": row["member"],
            "name": row["name"],
            "host": row["host"],
            "from": row["from_ms"],
            "to": row["to_ms"],
            "terms": row["terms"],
            "led": row["led_ms"],
            "most": row["most_seats"],
            "share": row["share"],
        }
        for row in sorted(rows, key=lambda row: (row["from_ms"] or 0, row["member"]))
    ]


def _term(row: Row, summary: dict[str, Any]) -> list[Any]:
    begin = summary["from_ms"] if row["from_ms"] is None else row["from_ms"]
    return [
        row["role"],
        row["seat"],
        row["member"],
        row["token"],
        begin,
        summary["to_ms"] if row["to_ms"] is None else row["to_ms"],
        row["why"] or "",
        row["cause"] or "",
        row["to_ms"] is None,
        bool(row["measured"]),
    ]


def _count(result: AuditResult, name: str) -> int:
    """How many rows there are, also of a table of which the result holds only the first."""
    held, said = len(result.rows(name)), result.summary.get(name, 0)
    return max(held, sum(said.values()) if isinstance(said, dict) else said)


def _table(result: AuditResult, name: str, title: str) -> dict[str, Any]:
    rows = result.rows(name)
    columns = result.tables[name].column_names
    return {
        "title": title,
        "name": name,
        "count": _count(result, name),
        "columns": columns,
        "rows": [[row[column] for column in columns] for row in rows[:MAX_ROWS]],
    }


def _part(name: str) -> str:
    return (resources.files("pares.spark") / "page" / name).read_text(encoding="utf-8")


def _safe(text: str) -> str:
    """JSON that no HTML parser takes for anything but text."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _text(value: Any) -> Any:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)

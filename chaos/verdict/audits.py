"""Spark's audits of all logs that a run has had, each with the writes made under its tokens, put together.

A log that is deleted is copied before (`kept`); the last one is audited where it is. A term or write is *judged* if its token
lies between the first and the last that one of these logs gave out. What the log decided between the copy and the deletion is
in none of them: that is what is missing from "judged, of how many".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from chaos.faults import STEP
from chaos.scene import GROUP, TOPIC, Scene
from chaos.verdict.kept import Stretch, span

_WORST: Final = ("broken", "unsure", "slow", "missing", "expected", "not checked", "kept")


@dataclass
class Audits:
    """What the audits found. `terms` and `writes`: how many of the run's were judged."""

    found: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Each audit's own JSON."""
    logs: int = 0
    """How many logs there were to audit."""
    terms: int = 0
    writes: int = 0
    failed: str = ""
    """Why one could not be made."""

    @property
    def promises(self) -> list[dict[str, Any]]:
        """Each promise, with the worst verdict of all logs, and its evidence there."""
        return together([audit["promises"] for audit in self.found])

    def to_json(self) -> dict[str, Any]:
        return {
            "logs": self.logs,
            "audited": len(self.found),
            "terms": self.terms,
            "writes": self.writes,
            "promises": self.promises,
            "each": self.found,
        }


def together(audits: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """One list of promises from those of several logs."""
    names = list(dict.fromkeys(promise["promise"] for audit in audits for promise in audit))
    merged: list[dict[str, Any]] = []
    for name in names:
        said = [(n, p) for n, audit in enumerate(audits, 1) for p in audit if p["promise"] == name]
        worst = min((p["verdict"] for _, p in said), key=_WORST.index)
        bad = [(n, p) for n, p in said if p["verdict"] == worst]
        if worst == "kept":
            evidence = f"in {len(said)} of {len(audits)} logs; in the last: {said[-1][1]['evidence']}"
        elif worst == "broken":
            evidence = "; ".join(f"log {n} of {len(audits)}: {p['evidence']}" for n, p in bad)
        else:
            evidence = f"in {len(bad)} of {len(audits)} logs, such as log {bad[0][0]}: {bad[0][1]['evidence']}"
        merged.append({"promise": name, "verdict": worst, "evidence": evidence})
    return merged


def audit_all(scene: Scene, tell: Callable[[str], None]) -> Audits:
    """Has Spark audit every log of the run, one after the other, the last one on the brokers."""
    result = Audits(logs=len(scene.kept) + 1)
    beliefs = scene.crew.beliefs()
    try:
        from pares.spark.audit import audit

        for number, url in enumerate([*scene.kept, scene.url]):
            tell(f"Spark audits log {number + 1} of {result.logs}")
            stretch = span(url, GROUP)
            if stretch is None:
                scene.notes.append(
                    f"log {number + 1} of {result.logs} gave out no token: there is nothing to audit in it"
                )
                result.logs -= 1
                continue
            if url == scene.url:
                stretch = Stretch(url, stretch.low, None)
            table, writes = scene.crew.writes_of(stretch, number + 1)
            # Only where a stepped clock has stamped records: elsewhere what physically happened is judged sharply.
            error = 1000 * STEP if number in scene.stepped else 0
            sink = f"{scene.folder / 'sink.db'}#{table}"
            result.found.append(audit(url, GROUP, writes=sink, clock_error_ms=error).to_json())
            result.terms += sum(stretch.holds(belief.token) for belief in beliefs)
            result.writes += writes
    except Exception as error:  # whatever it is: what the run has found out is not to be lost with it
        result.failed = f"topic {TOPIC}, log {len(result.found) + 1} of {result.logs}: {error!r}"
    return result

"""A log in which promises are broken on purpose, each in a role of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from scribe import Scribe, Truth


@dataclass
class Planted:
    """One log in which each role has a story of its own, most of them unlawful; and what to look for."""

    log: Scribe
    url: str = ""
    terms: dict[str, Truth] = field(default_factory=dict)
    bad: list[int] = field(default_factory=list)
    faults: list[tuple[int, str, str]] = field(default_factory=list)


def plant_all() -> Planted:
    """All of it, in no ledger yet."""
    log = Scribe()
    log.role("together", "untold", "frozen", "proven", "unfounded", "early", "again", "quiet", "never")
    plant = Planted(log)
    _together(plant)
    _untold(plant)
    _frozen(plant)
    _proven(plant)
    _unfounded(plant)
    _early(plant)
    _again(plant)
    plant.bad = [
        log.raw(b"\xff\x00garbage"),
        log.raw(b'{"v":1,"k":"beat","g":"g","m":"admin~0","n":1e400,"b":1,"s":1}'),
    ]
    plant.bad.append(log.raw(b"[" * 100_000))
    log.sleep(5)
    log.snapshot("admin~0")
    log.snapshot("admin~0", wrong=True)
    return plant


def _two(plant: Planted, role: str) -> tuple[Truth, str]:
    """A member leads the role, another could."""
    log = plant.log
    a, b = log.join(f"{role}-a"), log.join(f"{role}-b")
    term = plant.terms[role] = log.claim(a, role)
    log.sleep(2)
    log.lead(term)
    log.sleep(100)
    return term, b


def _together(plant: Planted) -> None:
    """The holder goes on believing for 30 ms under its successor, and says so."""
    log = plant.log
    term, b = _two(plant, "together")
    log.sleep(1200)
    log.beat(b)
    log.lead(log.claim(b, "together"))
    log.sleep(40)
    log.stop(term, at=log.now - 10)
    log.beat(b)


def _untold(plant: Planted) -> None:
    """The holder was killed; the successor came before its lease can have run out: perhaps both believed."""
    log = plant.log
    _, b = _two(plant, "untold")
    log.sleep(50)
    plant.faults.append((log.now, "untold-a", "kill"))
    log.sleep(350)
    log.lead(log.claim(b, "untold"))


def _frozen(plant: Planted) -> None:
    """The holder was frozen for good: from the log alone it is as if it were dead."""
    log = plant.log
    term, b = _two(plant, "frozen")
    plant.faults.append((log.now, term.member, "SIGSTOP"))
    log.sleep(1200)
    log.beat(b)
    log.lead(log.claim(b, "frozen"))
    plant.faults.append((log.now, b, "freeze"))


def _proven(plant: Planted) -> None:
    log = plant.log
    term, b = _two(plant, "proven")
    log.obituary(b, term.member)
    log.lead(log.claim(b, "proven"))


def _unfounded(plant: Planted) -> None:
    """A member believes in a term that the log gave to another."""
    log = plant.log
    term, b = _two(plant, "unfounded")
    log.lead(Truth("unfounded", term.token, b))


def _early(plant: Planted) -> None:
    log = plant.log
    log.lead(log.claim(log.join("early-a"), "early"), at=log.now - 2)


def _again(plant: Planted) -> None:
    log = plant.log
    term, _ = _two(plant, "again")
    log.stop(term, "drained")
    log.sleep(5)
    log.lead(term)

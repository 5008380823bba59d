"""The alerts and the dashboard of `ops/`, on a real Prometheus that scrapes real members' exporters."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ops_files import CASES, RULES, dashboard, filled, queries
from prometheus_server import PATIENCE, Prometheus, tool
from scraped_member import SESSION

import pares
from standstill import stop_between_writes

pytestmark = [pytest.mark.brokers, pytest.mark.processes, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
LED = 'sum by (group, role) (pares_leads{group="shop"})'


class Exporter:
    """A process that can be scraped."""

    def __init__(self, script: str, *words: str) -> None:
        command = [sys.executable, str(HERE / script), *words]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.target = f"127.0.0.1:{int(self.process.stdout.readline())}"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


class Scraped(Exporter):
    """A member in a process of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.flag = name, folder / f"{name}.ready"
        self.flag.touch()
        super().__init__("scraped_member.py", f"sqlite:///{folder}/log.db", name, str(self.flag))

    def step_down(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("step_down\n")
        self.process.stdin.flush()


def test_rules_by_promtool() -> None:
    """Each alert fires when it should, and does not when it nearly should, on series made by hand."""
    for command in (["check", "rules", str(RULES)], ["test", "rules", str(CASES)]):
        done = subprocess.run([tool("promtool"), *command], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_and_dashboard_on_a_real_prometheus(tmp_path: Path) -> None:
    members: dict[str, Scraped] = {}
    consumer: Exporter | None = None
    try:
        for name in ("a", "b"):
            members[name] = Scraped(tmp_path, name)
        consumer = Exporter("scraped_consumer.py", f"sqlite:///{tmp_path}/billing.db")
        targets = [consumer.target, *(member.target for member in members.values())]
        with Prometheus(tmp_path, targets, RULES) as server:
            _play(server, members, tmp_path)
    finally:
        if consumer is not None:
            consumer.end()
        for member in members.values():
            member.end()


def _play(server: Prometheus, members: dict[str, Scraped], folder: Path) -> None:
    def leader() -> str:
        found = server.ask('pares_leads{group="shop"} == 1')
        return found[0]["metric"]["member"] if len(found) == 1 else ""

    def led(count: str) -> bool:
        return [sample["value"][1] for sample in server.ask(LED)] == [count]

    def fires(alert: str, **labels: str) -> bool:
        return labels.items() <= server.firing().get(alert, {"": ""}).items()

    assert {rule["name"] for group in server.get("rules")["groups"] for rule in group["rules"]} >= {"ParesNobodyLeads"}
    server.until("all are scraped, and one leads", lambda: len(server.ask("up == 1")) == 3 and led("1"))

    # A handover: nothing to be told of.
    first = leader()
    members[first].step_down()
    server.until("the other one leads", lambda: leader() not in ("", first))
    assert server.firing() == {}

    # The leader is frozen for longer than its session; somebody else takes over, which with such a session takes long.
    frozen = members.pop(leader())
    (other,) = members.values()
    stop_between_writes(frozen.process, folder / "log.db")
    try:
        server.until("the heir leads", lambda: leader() == other.name)
        server.until("the takeover was slow", lambda: fires("ParesTakeoverSlow", member=other.name))
    finally:
        members[frozen.name] = frozen
        frozen.process.send_signal(signal.SIGCONT)
    server.until("the lease of the frozen one was lost", lambda: fires("ParesLeaseLost", member=frozen.name))

    # Somebody writes what is no record.
    with closing(pares.open(f"sqlite:///{folder}/log.db")) as ledger:
        ledger.append(b"no record at all")
    server.until("bad records are told of", lambda: fires("ParesBadRecords"))

    _look_at(server)
    assert "ParesNobodyLeads" not in server.firing()
    assert "ParesTwoLead" not in server.firing()

    # The leader is killed, and the other one is not ready.
    frozen.flag.unlink()
    server.until("it is not ready", lambda: led("1") and leader() == other.name)
    _let_it_be_asked(server)
    other.end()
    server.until("nobody leads", lambda: led("0"))
    server.until("an alert fires", lambda: fires("ParesNobodyLeads", group="shop", role="cron", severity="page"))
    frozen.flag.touch()
    server.until("it leads", lambda: led("1") and leader() == frozen.name)
    server.until("the alert is over", lambda: "ParesNobodyLeads" not in server.firing())
    assert "ParesTwoLead" not in server.firing()


def _let_it_be_asked(server: Prometheus) -> None:
    """A member asks twice a session whether it is ready, so it knows after two sessions."""
    end = time.monotonic() + 2 * SESSION
    server.until("readiness was asked for", lambda: time.monotonic() > end)


def _look_at(server: Prometheus) -> None:
    """Each query of the dashboard, and each of its lists to choose from, has something to show."""
    empty = [(panel, query) for panel, query in queries() if not server.ask(filled(query, "60s"))]
    assert empty == []
    lists: list[dict[str, Any]] = [v for v in dashboard()["templating"]["list"] if v["type"] == "query"]
    assert len(lists) == 2
    for variable in lists:
        metric, label = variable["definition"].removeprefix("label_values(").removesuffix(")").split(", ")
        assert server.get(f"label/{label}/values", **{"match[]": metric})

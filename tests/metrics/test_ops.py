"""The alerts and the dashboard, as far as they can be looked at without a Prometheus: `test_alerts.py` has one."""

from __future__ import annotations

import re
import uuid
from contextlib import closing
from itertools import combinations
from typing import Any

import pytest
from ops_files import CASES, METRIC, RULES, dashboard, panels, queries
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import pares
from pares.ledger import open_topic
from pares.metrics.table import SPLITS, TIMES, VALUES


def exported() -> dict[str, set[str]]:
    """Names of samples -> their labels, by the exporter of a real member and a real consumer; of what they have nothing
    to tell of yet, by the table."""
    registry = CollectorRegistry()
    where = f"memory://{uuid.uuid4().hex}"
    with closing(pares.open(where)) as ledger, pares.Member(where, group="g", roles=["A"], name="a") as me:
        with closing(open_topic(ledger, "orders", 1)) as topic:
            topic.append(b"two apples")
        pares.metrics.prometheus(me, registry)
        assert me.wait("A", 30)
        with pares.Consumer(where, group="c", topics="orders", name="a") as consumer:
            pares.metrics.prometheus(consumer, registry)
            next(consumer.batches(30)).done()
            families = list(text_string_to_metric_families(generate_latest(registry).decode()))
    found: dict[str, set[str]] = {}
    for sample in (sample for family in families for sample in family.samples):
        found.setdefault(sample.name, set()).update(sample.labels)
    for name, _, counts, label, _ in SPLITS:
        found.setdefault(name + "_total" * counts, set()).update({"group", "member", label})
    return found


def test_metrics_that_are_asked_for_are_exported() -> None:
    there = exported()
    assert len(there) > len(VALUES) + len(SPLITS) + len(TIMES)
    asked = {
        "rules": METRIC.findall(RULES.read_text()),
        "dashboard": [m for _, q in queries() for m in METRIC.findall(q)],
    }
    for where, names in asked.items():
        assert len(names) > 10
        # Sentences name a histogram as a whole.
        assert set(names) - there.keys() - {name for name, *_ in TIMES} == set(), f"{where}: such metrics there are not"


def test_labels_that_are_asked_for_are_exported() -> None:
    """`instance` and `job` are Prometheus' own."""
    known = set[str]().union(*exported().values()) | {"instance", "job", "le"}
    listed = re.compile(r"\b(?:by|on|ignoring|without) \(([^)]*)\)")
    chosen = re.compile(r"[{,]\s*(\w+)\s*=~?\"")
    rules = "\n".join(line for line in RULES.read_text().splitlines() if not line.startswith("#"))
    for where, text in [("rules", rules), *queries()]:
        names = {name.strip() for found in listed.findall(text) for name in found.split(",")} | set(
            chosen.findall(text)
        )
        assert names <= known, f"{where}: {names - known}"


def test_each_alert_says_what_is_wrong_and_has_a_case() -> None:
    rules, cases = RULES.read_text(), CASES.read_text()
    alerts = re.split(r"\n      - alert: ", rules)[1:]
    assert len(alerts) >= 6
    for alert in alerts:
        name = alert.split("\n")[0]
        for part in ("expr:", "severity:", "summary:", "description:"):
            assert f"\n        {part}" in alert or f"\n          {part}" in alert, f"{name} has no {part}"
        assert name in cases, f"{name} is never seen to fire"


def test_the_documents_name_all_alerts() -> None:
    page = (RULES.parents[2] / "docs" / "operating.md").read_text()
    for alert in re.findall(r"- alert: (\w+)", RULES.read_text()):
        assert f"`{alert}`" in page


def test_the_dashboard_is_well_formed() -> None:
    board = dashboard()
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert names == ["datasource", "group", "role"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in panels():
        assert panel["title"]
        assert panel["description"]
        assert panel["targets"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)
        for of in (panel, *panel["targets"]):
            assert of["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_no_panel_covers_another() -> None:
    def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        return {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}

    for one, other in combinations(dashboard()["panels"], 2):
        assert not cells(one) & cells(other), f"{one['title']} and {other['title']}"


@pytest.mark.parametrize(("panel", "expression"), queries())
def test_queries_are_of_the_chosen_groups(panel: str, expression: str) -> None:
    for found in METRIC.finditer(expression):
        assert expression[found.end() :].startswith('{group=~"$group"'), panel

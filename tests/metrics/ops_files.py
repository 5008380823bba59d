"""What stands in `ops/`: the alerts' and the dashboard's expressions, and the metrics that they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

OPS: Final = Path(__file__).parents[2] / "ops"
RULES: Final = OPS / "prometheus" / "pares-alerts.yml"
CASES: Final = OPS / "prometheus" / "pares-alerts.test.yml"
DASHBOARD: Final = OPS / "grafana" / "pares-dashboard.json"
METRIC: Final = re.compile(r"\bpares_\w+")


def dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text())


def panels() -> Iterator[dict[str, Any]]:
    """Those that show something: rows are only headings."""
    yield from (panel for panel in dashboard()["panels"] if panel["type"] != "row")


def queries() -> list[tuple[str, str]]:
    """(panel, expression) of the dashboard."""
    return [(panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]]


def filled(expression: str, interval: str) -> str:
    """As Grafana asks for it when all groups and roles are chosen."""
    for name, value in {"$group": ".*", "$role": ".*", "$__rate_interval": interval}.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression

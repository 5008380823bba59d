"""Commands that look back start Spark for long work where there is much to look at, and for an early start elsewhere."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pares.cli.app import app
from pares.ledger import open as open_ledger
from pares.spark import history, logs, session
from pares.spark.audit import audit
from pares.spark.histories import store
from pares.spark.host.telling import JAVA, settings_of

GENESIS = '{"v":1,"g":"pares","m":"a~0","n":1,"b":1,"s":0,"t":"genesis","base":1}'


class Asked(Exception):
    pass


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A log of three entries, and no session: what it was asked for is raised."""

    def started(*_: object, long: bool, **__: object) -> Any:
        raise Asked(long)

    monkeypatch.setattr(session, "started", started)
    monkeypatch.setattr("pares.spark.audit.started", started)
    monkeypatch.setattr(session, "require", lambda: None)
    with closing(open_ledger(f"sqlite:///{tmp_path}/log.db")) as ledger:
        ledger.append_many([GENESIS.encode()] * 3)
        return ledger.url


def asked(*arguments: str) -> bool:
    with pytest.raises(Asked) as raised:
        CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    return bool(raised.value.args[0])


@pytest.mark.parametrize(("least", "long"), [(3, True), (4, False)])
def test_of_a_log(url: str, least: int, long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LONG", least)
    assert asked("audit", "--engine", "spark", "--ledger", url) is long
    assert asked("slo", "--ledger", url) is long
    with pytest.raises(Asked, match=str(long)):
        audit(url, "pares", engine="spark")


@pytest.mark.parametrize(("least", "long"), [(3, True), (4, False)])
def test_of_a_history(url: str, tmp_path: Path, least: int, long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LONG", least)
    kept = str(tmp_path / "kept")
    for command in ("audit", "slo", "capacity"):
        assert asked(command, "--history", kept) is False, "there is nothing yet"
    history(None, kept).update(url)
    for command in ("audit", "slo", "capacity"):
        assert asked(command, "--history", kept) is long


def test_long_work_is_compiled_for_speed(tmp_path: Path) -> None:
    quick = "-XX:TieredStopAtLevel=1"
    assert quick in settings_of("pares", tmp_path)[JAVA]
    assert quick not in settings_of("pares", tmp_path, long=True)[JAVA]

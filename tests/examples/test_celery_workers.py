"""Celery's prefork workers: a member made before the fork is dead in them and says so, one made after it lives and leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.signals import before_task_publish

import pares
from pares.frameworks.celery import UID, send_token

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
PATIENCE = 60.0
SESSION = 30.0
"""Seconds: whoever is gone sooner has left by itself."""

APP = """
import json, os, pathlib, time
from celery import Celery
import pares
from pares.frameworks.celery import MemberInWorkers, token_of

LEDGER, FOLDER, SESSION = os.environ["PARES_LEDGER"], pathlib.Path(os.environ["FOLDER"]), float(os.environ["SESSION"])
app = Celery("work", broker="filesystem://")
app.conf.broker_transport_options = json.loads(os.environ["TRANSPORT"])
early = pares.Member(LEDGER, group="early", roles=["A"], session=SESSION)
assert early.wait("A", 60)

late = MemberInWorkers(LEDGER, group="late", roles=["A"], session=SESSION)

@app.task(name="look", bind=True)
def look(self, number):
    member = late.member
    end = time.monotonic() + 60
    while (member.state == "joining" or member.leader("A") is None) and time.monotonic() < end:
        time.sleep(0.01)  # others may have read that it has joined before it has read so itself
    try:
        early.wait("A")
        error = ""
    except pares.ParesError as caught:
        error = f"{type(caught).__name__}: {caught}"
    found = {"pid": os.getpid(), "early": early.holds("A"), "error": error, "state": member.state}
    found["token"] = token_of(self)
    found["led_by"] = str(member.leader("A") and member.leader("A").name)
    new = FOLDER / f"{number}.new"
    new.write_text(json.dumps(found))
    new.rename(FOLDER / f"{number}.json")
    time.sleep(0.2)
"""


def test_a_member_in_each_worker_made_after_the_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `pares.frameworks.celery`; and the sender's token comes with the messages that it sends under one."""
    (tmp_path / "work.py").write_text(APP)
    for name in ("messages", "control", "found"):
        (tmp_path / name).mkdir()
    transport = {
        "data_folder_in": str(tmp_path / "messages"),
        "data_folder_out": str(tmp_path / "messages"),
        "control_folder": str(tmp_path / "control"),
    }
    url = f"sqlite:///{tmp_path}/group.db"
    environment = {"PARES_LEDGER": url, "FOLDER": str(tmp_path / "found"), "SESSION": str(SESSION)}
    command = [sys.executable, "-m", "celery", "-A", "work", "worker", "--pool", "prefork", "--concurrency", "2"]
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(
            [*command, "--loglevel", "WARNING", "--without-gossip", "--without-mingle"],
            cwd=tmp_path,
            env={**os.environ, **environment, "TRANSPORT": json.dumps(transport)},
            stdout=log,
            stderr=log,
        )
    try:
        with pares.Observer(url, group="late") as late, pares.Observer(url, group="early") as early:
            until(
                lambda: len(late.world.members) == 2 and late.leader("A") is not None, "a member in each of two workers"
            )
            sender = Celery("work", broker="filesystem://")
            sender.conf.broker_transport_options = transport
            for number in range(4):
                sender.send_task("look", [number])
            monkeypatch.delenv("PARES_TOKEN", raising=False)
            assert not send_token()
            monkeypatch.setenv("PARES_TOKEN", "12345")
            assert send_token()
            try:
                for number in range(4, 8):
                    sender.send_task("look", [number])
            finally:
                before_task_publish.disconnect(dispatch_uid=UID)
            until(lambda: len(seen(tmp_path)) == 8, "all tasks have run")
            found = seen(tmp_path)
            holder = early.leader("A")
            assert holder is not None
            assert f"-{worker.pid}-" in holder.name, "the parent's own, and alive there"
            assert sorted(str(each["token"]) for each in found) == ["12345"] * 4 + ["None"] * 4
            assert worker.pid not in {each["pid"] for each in found}
            assert {each["early"] for each in found} == {False}
            assert all(each["error"].startswith("ForkedError") for each in found)
            assert all("make a new one after the fork" in each["error"] for each in found)
            assert {each["state"] for each in found} == {"live"}
            names = {member.name for member in late.world.members.values()}
            assert {each["led_by"] for each in found} < names
            worker.terminate()
            assert worker.wait(PATIENCE) == 0
            until(lambda: not late.world.members and not early.world.members, "all have left", SESSION / 2)
    finally:
        worker.kill()
        worker.wait()


def seen(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (folder / "found").glob("*.json")]


def until(true: Callable[[], object], what: str, within: float = PATIENCE) -> None:
    end = time.monotonic() + within
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.02)

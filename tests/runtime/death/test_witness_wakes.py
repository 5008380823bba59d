"""What wakes a witness (R22), and that it finds nothing late where the system lacks some of it."""

from __future__ import annotations

import errno
import os
import select
import signal
from pathlib import Path

import pytest
from proof_tools import Holder, next_dead

from pares.runtime.death.closings import Closings
from pares.runtime.death.watcher import DeathWatch

pytestmark = pytest.mark.processes


def test_a_witness_is_woken_where_no_process_can_be_watched(
    tmp_path: Path, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told of the file, and does not try each lock every few milliseconds."""
    monkeypatch.delattr(os, "pidfd_open")
    watch = DeathWatch(tmp_path, witness=True)
    watch.watch({"a~1": holder.statement})
    assert watch.check(1) == []
    assert watch.poll_interval(1) == pytest.approx(10)
    os.kill(holder.process.pid, signal.SIGKILL)
    assert select.select(watch.filenos(), [], [], 30)[0]
    assert next_dead(watch, within=30) == ["a~1"]
    watch.close()


def test_a_witness_that_is_told_of_no_more_files_watches_the_process(
    tmp_path: Path, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(self: Closings, descriptor: int) -> int:
        raise OSError(errno.ENOSPC, "no more watches")

    monkeypatch.setattr(Closings, "add", no_more)
    watch = DeathWatch(tmp_path, witness=True)
    watch.watch({"a~1": holder.statement})
    assert watch.check() == []
    assert watch.poll_interval() is None, "it will be woken"
    os.kill(holder.process.pid, signal.SIGKILL)
    assert select.select(watch.filenos(), [], [], 30)[0]
    assert next_dead(watch, within=30) == ["a~1"]
    watch.close()


def test_where_nothing_wakes_a_witness_it_tries_often(
    tmp_path: Path, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With neither a watch of files nor one of processes nothing is found late."""

    def none(self: Closings) -> None:
        raise OSError(errno.EMFILE, "no inotify instance can be had")

    monkeypatch.setattr(Closings, "__init__", none)
    monkeypatch.delattr(os, "pidfd_open")
    watch = DeathWatch(tmp_path, witness=True)
    watch.watch({"a~1": holder.statement})
    assert watch.filenos() == []
    assert watch.check(1) == []
    assert watch.poll_interval(1) == pytest.approx(0.005)
    watch.close()

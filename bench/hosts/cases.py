"""What a witness brings: takeovers across hosts after SIGKILL and after an OOM kill, with it and without; and what it costs.

Three hosts are network namespaces, with a boot id, a member, a lock folder and a witness each; Kafka is in a fourth. A witness
runs in a process namespace of its own, as in a sidecar container: no process id of the members means anything there.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from chaos.net import Net, require_rights, sweep

import pares
from bench.cases import Row, spread
from bench.hosts.cgroup import little_memory, put
from bench.processes import Troupe
from pares.dev import Kafka
from pares.dev.kafka import jars
from pares.dev.process import guarded
from pares.runtime.clock import stopwatch
from pares.runtime.death.lock import DeathLock
from pares.runtime.death.watcher import DeathWatch

HOSTS: Final = ("h1", "h2", "h3")
SESSION: Final = 5.0
"""Seconds: a takeover that takes milliseconds was none by silence."""
UNWITNESSED: Final = 1.0
ROOM: Final = 48 * 1024 * 1024
"""Bytes that a process may have beyond what it has, before it is killed for more."""
TARGET_MS: Final = 20


class Scene:
    """Three hosts and a Kafka. In a `with`; this thread is on a network from where it reaches all of them meanwhile."""

    def __init__(self, *, witnesses: bool, session: float) -> None:
        self._witnesses, self._session = witnesses, session
        self._stack = contextlib.ExitStack()
        self._numbers = itertools.count(1)
        self._hosts: dict[str, str] = {}
        self.killed = 0

    def __enter__(self) -> Scene:
        require_rights()
        sweep()
        jars.fetch()  # from in there nobody reaches anything
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self) -> None:
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="pares-bench-")))
        self.net = Net()
        self._stack.callback(self.net.close)
        self.net.open()
        address = self.net.add("broker")
        for host in (*HOSTS, "desk"):
            self.net.add(host)
        self.net.enter("desk")
        kafka = self._stack.enter_context(Kafka(nodes=1, host=[address], prefix={1: self.net.prefix("broker")}))
        url = kafka.topic_url("bench")
        end = time.monotonic() + 30
        while True:
            try:
                ledger = pares.open(url)
                break
            except pares.LedgerUnavailable:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
        for _ in range(2000):  # a broker that serves its first requests takes several times as long for each
            ledger.append(b"x" * 150)
        ledger.close()
        self.troupe = self._stack.enter_context(Troupe(url))
        if self._witnesses:
            for host in HOSTS:
                self._witness(host)
        for host in HOSTS:
            self.start(host)
        self.leader, _ = self.troupe.hear("lead")
        time.sleep(2.0)

    def _locks(self, host: str) -> Path:
        return self._folder / host

    def _on(self, host: str, apart: Sequence[str]) -> list[str]:
        """What goes before a command that is to run on a host: in its network, and with a boot id of its own, as each host has.
        [of one boot, the members of all three would take one another for neighbours that see each other's locks]"""
        boot = self._folder / f"{host}.boot"
        if not boot.exists():
            boot.write_text(f"{uuid.uuid4()}\n")
        bound = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
        return [*self.net.prefix(host), *apart, "sh", "-c", bound, str(boot)]

    def _witness(self, host: str) -> None:
        own = ["--ledger", self.troupe.url, "--group", "bench", "--lock-folder", str(self._locks(host)), "--json"]
        apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command = [*self._on(host, apart), sys.executable, "-m", "pares", "witness", *own]
        process = subprocess.Popen(guarded(command), stderr=subprocess.PIPE, text=True)
        self._stack.callback(_end, process)
        assert process.stderr is not None
        for line in process.stderr:
            if '"ready"' in line:
                return
        raise RuntimeError(f"the witness of {host} has ended with {process.wait()}")

    def start(self, host: str) -> None:
        name = f"{host}-{next(self._numbers)}"
        self._hosts[name] = host
        command = [sys.executable, "-m", "bench.worker", self.troupe.url, name, str(self._session), "r"]
        self.troupe.cast(name, [*self._on(host, ["unshare", "--mount"]), *command, f"locks={self._locks(host)}"])

    def kill(self) -> float:
        """SIGKILL to the leader. Milliseconds until another host leads."""
        time.sleep(1.5 + random.random())
        at = stopwatch()
        self.troupe.players[self.leader].kill()
        return self._succeeded(at)

    def starve(self, folder: Path) -> float:
        """The leader takes memory until the kernel kills it. Milliseconds from its last sign of life, as `kill`."""
        time.sleep(1.5 + random.random())
        player, signs = self.troupe.players[self.leader], self._folder / f"{self.leader}.signs"
        signs.write_bytes(bytes(8))
        put(folder, player.process.pid, ROOM)
        player.say(f"eat {signs}")
        player.process.wait(60)
        return self._succeeded(int.from_bytes(signs.read_bytes(), "little"))

    def _succeeded(self, at: int) -> float:
        dead = self.leader
        self.leader, led = self.troupe.hear("lead", after=at, by_other_than=dead)
        assert self._hosts[self.leader] != self._hosts[dead], "on another host"
        self.troupe.players[dead].process.wait()
        self.troupe.players[dead].hang_up()
        self.start(self._hosts[dead])
        return (led - at) / 1e6


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stderr is not None:
        process.stderr.close()


def takeovers(rounds: int) -> Iterator[Row]:
    """Across hosts, on Kafka."""
    few = max(3, rounds // 10)
    with Scene(witnesses=True, session=SESSION) as scene:
        found = [scene.kill() for _ in range(rounds)]
        met = statistics.median(found) <= TARGET_MS
        what = f"SIGKILL of the leader, led on another host: a witness on each, session {SESSION:g} s"
        yield Row(what, spread(found), f"p50 <= {TARGET_MS} ms", met)
        found = list[float]()
        for number in range(few):
            with little_memory(str(number)) as folder:
                found.append(scene.starve(folder))
        yield Row("OOM kill of the leader, led on another host: a witness on each", spread(found))
    with Scene(witnesses=False, session=UNWITNESSED) as scene:
        found = [scene.kill() for _ in range(few)]
        yield Row(f"SIGKILL, another host: no witness, session {UNWITNESSED:g} s", spread(found, digits=0))


def wakes(quick: bool) -> Iterator[Row]:
    """How often the watch of a witness wakes while nobody dies; and how long after a lock is let go of it knows."""
    seconds = 12 if quick else 60
    with tempfile.TemporaryDirectory(prefix="pares-bench-") as folder:
        locks = {f"m{number}~1": DeathLock.take(Path(folder), f"m{number}~1") for number in range(100)}
        watch = DeathWatch(Path(folder), witness=True)
        watch.watch({member: lock.statement for member, lock in locks.items()})
        count, end = -1, time.monotonic() + seconds  # the first look is no waking
        while (left := end - time.monotonic()) > 0:
            assert watch.check() == []
            count += 1
            pause = watch.poll_interval()
            select.select(watch.filenos(), [], [], left if pause is None else min(pause, left))
        rate = count / seconds * 60
        yield Row("witness of 100 members: wakings of its watch, per minute", f"{rate:.1f}", "<= 10", rate <= 10)
        found: list[float] = []
        for lock in list(locks.values())[:50]:
            began = time.perf_counter()
            lock.abandon()
            while not watch.check():
                select.select(watch.filenos(), [], [], watch.poll_interval())
            found.append((time.perf_counter() - began) * 1000)
        yield Row("witness of 100 members: a lock let go of, until it knows", spread(found, digits=2))
        watch.close()
        for lock in locks.values():
            lock.release()

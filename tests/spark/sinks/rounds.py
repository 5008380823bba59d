"""Kills and freezes of real processes that publish to a real target: by a sink, and by a job that is not guarded.

    python tests/spark/sinks/rounds.py --kills 40 --freezes 40 --to delta

Each process publishes batches as Spark has it: what a batch covers is fixed, it is published, and then noted in the checkpoint.
In a round a process is killed at a random moment; or it is frozen, another one with a higher token goes on, and the frozen one
wakes up. The rows of a sink are those of each batch, once. The naive job inserts a batch in one transaction of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from sink_tools import ROLE, frame
from targets import TARGETS

from pares.core.errors import Stale
from pares.spark.sinks.base import Seat, deliver
from pares.spark.sinks.extents import StreamExtent

SIZE = 200
REFUSED = 3
"""What a process ends with that the fence has refused."""
MOMENT = 0.03
"""Seconds within which a process is hit after it has begun a batch."""


class Result(NamedTuple):
    batches: int
    doubled: int
    lost: int
    refused: int
    """Frozen processes that the fence has refused; a server has ended the transactions of the others."""
    took: list[float]
    """Seconds in which the process after a frozen one had started and published a batch."""


def work(to: str, url: str, folder: Path, token: int, naive: bool) -> None:
    """Until it is hit, or has published a batch when that is enough."""
    target, held = TARGETS[to](url), Seat(ROLE, 0, token)
    sink = target.sink()
    if not naive:
        sink.open(held)
    enough = False
    while not enough:
        enough = (folder / "enough").exists()
        number = len(list((folder / "commits").iterdir()))
        first, upto = number * SIZE, (number + 1) * SIZE
        print("begins", number, flush=True)
        if naive:
            target.insert(first, upto)
        else:
            deliver(
                sink,
                frame(range(first, upto)),
                held,
                StreamExtent("q", number, str(first) if number else None, str(upto)),
            )
        (folder / "commits" / str(number)).touch()
        print("published", number, flush=True)


@contextlib.contextmanager
def started(to: str, url: str, folder: Path, token: int, naive: bool) -> Iterator[subprocess.Popen[str]]:
    kind = "naive" if naive else "guarded"
    command = [sys.executable, __file__, "--worker", to, url, str(folder), str(token), kind]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return
    raise AssertionError(f"it ended without saying {word}: {process.wait()}")


def play(url: str, kills: int, freezes: int, *, naive: bool, seed: int = 1, to: str = "postgres") -> Result:
    """Makes the target anew."""
    target = TARGETS[to](url)
    target.make()
    chance, token, took, refused = random.Random(seed), 0, list[float](), 0
    rounds = ["kill"] * kills + ["freeze"] * freezes
    chance.shuffle(rounds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "commits").mkdir()
        for what in rounds:
            token += 1
            with started(to, url, folder, token, naive) as process:
                until(process, "begins")
                time.sleep(chance.random() * MOMENT)
                if what == "kill":
                    continue
                os.kill(process.pid, signal.SIGSTOP)
                os.waitpid(process.pid, os.WUNTRACED)
                token, began = token + 1, time.monotonic()
                with started(to, url, folder, token, naive) as other:
                    until(other, "published")
                    took.append(time.monotonic() - began)
                    os.kill(process.pid, signal.SIGCONT)
                    if naive:
                        until(process, "published")
                    else:
                        ended = process.wait(60)
                        assert ended > 0, "it has failed"
                        refused += ended == REFUSED
        (folder / "enough").touch()
        with started(to, url, folder, token + 1, naive) as process:
            process.communicate(timeout=60)
            assert process.returncode == 0
        batches = len(list((folder / "commits").iterdir()))
    found = target.rows()
    expected = range(batches * SIZE)
    return Result(batches, len(found) - len(set(found)), len(set(expected) - set(found)), refused, took)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--freezes", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", choices=sorted(TARGETS), default="postgres")
    asked = parser.parse_args()
    with served(asked.to) as url_of:
        for naive in (True, False):
            url = url_of("naive" if naive else "guarded")
            found = play(url, asked.kills, asked.freezes, naive=naive, seed=asked.seed, to=asked.to)
            print(
                f"{'naive' if naive else 'guarded'}: {asked.kills} kills, {asked.freezes} freezes, {found.batches} batches of "
                f"{SIZE} rows: {found.doubled} rows doubled, {found.lost} lost, {found.refused} refused by the fence; after a "
                f"freeze a batch was published in {statistics.median(found.took):.2f} s (median), {max(found.took):.2f} s "
                "at most",
                flush=True,
            )


@contextlib.contextmanager
def served(to: str) -> Iterator[Callable[[str], str]]:
    """What gives the target's `url` for a name, while its server runs."""
    if to == "delta":
        with tempfile.TemporaryDirectory() as folder:
            yield lambda name: f"{folder}/{name}"
        return
    from kafka_tools import new_topic
    from pares.dev import Kafka, Postgres

    if to == "kafka":
        with Kafka() as broker:
            yield lambda name: broker.topic_url(new_topic(broker))
        return
    with Postgres() as server:
        yield lambda name: server.url


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        _, _, to, url, folder, token, kind = sys.argv
        try:
            work(to, url, Path(folder), int(token), kind == "naive")
        except Stale:
            sys.exit(REFUSED)
    else:
        main()

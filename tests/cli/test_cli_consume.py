"""`pares consume`: a topic on a command's standard input."""

from __future__ import annotations

import base64
import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_log import pares

import pares.ledger as pares_ledger
from pares.core.errors import ConfigError
from pares.ledger.sources import Record
from pares.ledger.topics import opening
from pares.runtime.consume.dead_letters import letter_of
from pares.supervise.feed import encoded

Make = Callable[..., str]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes a topic with these payloads, in a new ledger, and gives its URL."""
    opened: list[Any] = []

    def orders(*payloads: bytes, partitions: int = 1) -> str:
        ledger = pares_ledger.open(f"file:{tmp_path / 'work'}")
        opened.append(ledger)
        topic = opening.open_topic(ledger, "orders", partitions)
        for number, payload in enumerate(payloads):
            topic.append(payload, partition=number % partitions, key=b"k")
        topic.close()
        return f"file:{tmp_path / 'work'}"

    yield orders
    for ledger in opened:
        ledger.close()


def script(tmp_path: Path, text: str) -> list[str]:
    """A command that runs this Python."""
    file = tmp_path / "handle.py"
    file.write_text(text)
    return [sys.executable, str(file)]


WRITES = """
import os, sys
with open(os.environ["SEEN"], "ab") as seen:
    for line in sys.stdin.buffer:
        seen.write(os.environ["PARES_PARTITION"].encode() + b" " + line)
        if b"bad" in line:
            sys.exit(3)
"""


def test_records_come_as_lines_in_order_and_each_run_that_ends_with_0_has_done_them(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make(*(b"order %d" % number for number in range(10)), partitions=2)
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    run = ["consume", "orders", "--ledger", url, "--until-idle", "0.5", "--batch", "3", "--json", "--"]
    first = pares(*run, *script(tmp_path, WRITES))
    assert first.code == 0, first.err
    seen = (tmp_path / "seen").read_text().splitlines()
    for partition in range(2):
        mine = [line for line in seen if line.startswith(f"{partition} ")]
        assert mine == [f"{partition} order {number}" for number in range(10) if number % 2 == partition]
    last = json.loads(first.err.splitlines()[-1])
    assert (last["event"], last["done"], last["runs"]) == ("ended", 10, 4)
    again = pares(*run, *script(tmp_path, WRITES))
    assert again.code == 0
    assert json.loads(again.err.splitlines()[-1])["done"] == 0, "the group has its positions"


@pytest.mark.parametrize("claim", ["ranges", "keys"])
def test_records_of_one_partition_are_shared_out_by_claims_of_offsets_or_keys(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: str
) -> None:
    url = make(*(b"order %d" % number for number in range(40)))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    options = ["--ledger", url, "--until-idle", "0.5", "--claim", claim, "--slots", "2", "--json", "--"]
    found = pares("consume", "orders", *options, *script(tmp_path, WRITES))
    assert found.code == 0, found.err
    seen, orders = (tmp_path / "seen").read_text().splitlines(), [f"0 order {number}" for number in range(40)]
    slots = (
        [seen] if claim == "ranges" else [[line for line in seen if int(line.split()[-1]) % 2 == n] for n in range(2)]
    )
    assert slots == ([orders] if claim == "ranges" else [orders[::2], orders[1::2]]), "without a key, by their offsets"
    assert json.loads(found.err.splitlines()[-1])["done"] == 40
    again = pares("consume", "orders", *options, *script(tmp_path, WRITES))
    assert json.loads(again.err.splitlines()[-1])["done"] == 0, "the group has its positions"


def test_what_fails_again_and_again_is_found_alone_and_parked(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make(b"one", b"bad", b"three")
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    options = ["--retries", "1", "--backoff", "0.01", "--dead-letter", "dead", "--until-idle", "0.5"]
    found = pares("consume", "orders", "--ledger", url, *options, "--", *script(tmp_path, WRITES))
    assert found.code == 1, "somebody should look at it"
    assert "1 records parked" in found.err
    ledger = pares_ledger.open(url)
    topic = opening.open_topic(ledger, "dead")
    letters = [letter_of(entry.payload) for number in range(topic.partitions) for entry in topic.read(0, number)]
    topic.close()
    ledger.close()
    assert [(letter.offset, letter.payload) for letter in letters] == [(1, b"bad")]
    assert (tmp_path / "seen").read_text().splitlines().count("0 three") == 1


def test_a_signal_lets_the_command_end_and_its_records_are_done(make: Make, tmp_path: Path) -> None:
    url = make(b"one")
    begun, go = tmp_path / "begun", tmp_path / "go"
    os.mkfifo(begun)
    os.mkfifo(go)
    command = script(tmp_path, f"open({str(begun)!r}, 'w').close(); open({str(go)!r}).read()")
    arguments = [sys.executable, "-m", "pares", "consume", "orders", "--ledger", url, "--json", "--", *command]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        try:
            begun.read_text()
            process.send_signal(signal.SIGTERM)
            go.write_text("")
            said = process.communicate(timeout=60)[1]
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGTERM
    assert json.loads(said.splitlines()[-1])["done"] == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing", "--", "cat"], "no topic 'nothing'"),
        (["orders", "--", "no-such-command-here"], "no command 'no-such-command-here'"),
        (["orders", "--dead-letter", "orders", "--", "cat"], "another topic"),
        (["orders", "--session", "100", "--", "cat"], "session is 100"),
    ],
)
def test_what_is_wrong_is_said_and_what_to_do(make: Make, arguments: list[str], says: str) -> None:
    found = pares("consume", "--ledger", make(b"one"), *arguments)
    assert found.code == 2
    assert says in found.err


def test_forms_of_records_tell_them_apart() -> None:
    records = [Record(4, 7, b"k", b"a\nb"), Record(6, 8, None, b"")]
    data = encoded(records, "orders", 1, "length")
    lengths = []
    while data:
        (length,) = struct.unpack(">I", data[:4])
        lengths.append(data[4 : 4 + length])
        data = data[4 + length :]
    assert lengths == [b"a\nb", b""]
    lines = [json.loads(line) for line in encoded(records, "orders", 1, "json").splitlines()]
    assert [(line["partition"], line["offset"], line["timestamp_ms"]) for line in lines] == [(1, 4, 7), (1, 6, 8)]
    assert [base64.b64decode(line["payload"]) for line in lines] == [b"a\nb", b""]
    assert [line["key"] for line in lines] == [base64.b64encode(b"k").decode(), None]
    with pytest.raises(ConfigError, match="--format"):
        encoded(records, "orders", 1, "lines")

"""No secret in what pares says: commands and error paths are driven with the planted one, and the watch shows that it sees.

The watch itself (`planted_secret`) looks through what every test says. Here it gets something to look at.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

import pares
import pares.cli
import pares.ledger
from pares.core.errors import ParesError
from pares.dev import Nats, Security
from pares.ledger.address import Options, shown
from pares.ledger.registry import parse
from planted_secret import SECRET, forms, leaks

PATIENCE = 60.0
COMMANDS = [
    ["watch", "--once"],
    ["watch", "--json"],
    ["history"],
    ["roles"],
    ["roles", "add", "r"],
    ["handover", "r"],
    ["drain", "n"],
    ["pause"],
    ["resume"],
    ["doctor"],
    ["doctor", "--json"],
    ["audit"],
    ["run", "--role", "r", "--", "true"],
]
BESIDE = [SECRET, quote(SECRET, safe=""), quote(SECRET), quote_plus(SECRET)]
"""The secret as somebody may put it into a URL, where it has no place."""
PLACES = [
    "kafka://me:{}@127.0.0.1:1/t",
    "kafka://127.0.0.1:1/t?sasl.password={}",
    "kafka://127.0.0.1:1/t?password={}",
    "kafka://127.0.0.1:1/t?ssl.key.password={}#x",
    "kafka://127.0.0.1:1,me:{}@127.0.0.1:2/t",
    "nats://me:{}@127.0.0.1:1/s",
    "nats://{}@127.0.0.1:1/s",
    "nats://127.0.0.1:1/s?token={}",
    "nats://127.0.0.1:1/s?password={}&password={}",
    "sqlite://me:{}@host/x.db",
    "memory://me:{}@name",
    "postgres://me:{}@host/db",
    "redis://me:{}@127.0.0.1:1/0",
    "redis://:{}@127.0.0.1:1/0",
    "rabbitmq-stream://me:{}@127.0.0.1:1/s",
    "kinesis://me:{}@eu-central-1/s",
    "kinesis://eu-central-1/s?aws_secret_access_key={}",
    "amqp://me:{}@127.0.0.1:1/q",
    "http://me:{}@host:99999/x",
    "nats://me:{}@[::1/s",
    "nats://me:{}@ho\u2100st/s",
    "nats://me:{}@host/s\x07",
    "kafka:me:{}@host/t",
]


@pytest.fixture
def loud(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Everybody logs everything, libraries too."""
    caplog.set_level(logging.DEBUG)
    return caplog


def told(error: BaseException) -> str:
    """All that an error says, and the ones behind it."""
    texts: list[str] = []
    at: BaseException | None = error
    while at is not None:
        texts += [str(at), repr(at), repr(at.args)]
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return "\n".join(texts)


def command(arguments: list[str], url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    """What a command says; by `PARES_LEDGER`, so that the URL is in no command line."""
    monkeypatch.setenv("PARES_LEDGER", url)
    with pytest.raises(SystemExit):
        pares.cli.main([*arguments[:1], *arguments[1:]])
    output = capfd.readouterr()
    return output.out + output.err


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_that_was_put_into_a_url(
    place: str, loud: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for form in BESIDE:
        url = place.replace("{}", form)
        with pytest.raises(ParesError) as caught:
            pares.ledger.open(url, timeout=0.1)
        assert not leaks(told(caught.value)), place
        assert not leaks(shown(url))
    for arguments in (["watch", "--once"], ["doctor", "--json"], ["pause"], ["audit"], ["run", "--role", "r", "true"]):
        assert not leaks(command(arguments, place.replace("{}", SECRET), monkeypatch, capfd)), arguments
    assert not leaks(loud.text)


@pytest.mark.parametrize("scheme", ["kafka", "nats"])
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands_that_reach_nobody(
    scheme: str,
    arguments: list[str],
    tmp_path: Path,
    loud: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    lines = {
        "kafka": [
            "security.protocol=SASL_PLAINTEXT",
            "sasl.mechanism=PLAIN",
            "sasl.username=me",
            f"sasl.password={SECRET}",
        ],
        "nats": ["user=me", f"password={SECRET}", f"token={SECRET}"],
    }
    config = tmp_path / "client.properties"
    config.write_text("\n".join(lines[scheme]) + "\n")
    url = f"{scheme}://127.0.0.1:1/t?timeout=0.1&config={config}"
    text = command(arguments, url, monkeypatch, capfd)
    assert "127.0.0.1:1" in text
    assert not leaks(text)
    assert not leaks(loud.text)


def test_settings_that_are_refused(tmp_path: Path, loud: pytest.LogCaptureFixture) -> None:
    config = tmp_path / "client.properties"
    given: list[dict[str, Any]] = [
        {"options": {"security.protocol": "SSL", "ssl.key.pem": SECRET}},
        {"options": {"sasl.jaas.config": SECRET}},
        {"options": {"ssl.keystore.password": SECRET, "x": "1"}},
        {"options": {"acks": "1", "sasl.password": SECRET}},
        {"options": SECRET},
        {"config": str(config)},
        {"password": SECRET},
        {"sasl.password": SECRET},
    ]
    for content in (SECRET, f"={SECRET}", f"sasl.password={SECRET}\nno setting"):
        config.write_text(content)
        for options in given:
            for url in ("kafka://127.0.0.1:1/t", "nats://127.0.0.1:1/s", "nats://127.0.0.1:1"):
                with pytest.raises(ParesError) as caught:
                    pares.ledger.open(url, timeout=0.1, **options)
                assert not leaks(told(caught.value)), (url, options.keys())
    with pytest.raises(ParesError) as caught:
        pares.Member("nats://127.0.0.1:1/s", group="g", options={"user": "me", "password": SECRET})
    assert not leaks(told(caught.value))
    assert not leaks(loud.text)


def test_what_things_say_of_themselves() -> None:
    address = parse(f"nats://127.0.0.1:1/s?token={quote(SECRET)}")
    assert not leaks(repr(address) + str(address) + repr(Options(address.url, address.query)))
    assert not leaks(repr(Security(users={"ann": SECRET})))


def surfaces(me: pares.Member, url: str) -> Iterator[str]:
    """Whatever a member, its ledger and those who look on say."""
    medium = me._medium  # pyright: ignore[reportPrivateUsage]
    assert medium is not None
    ledger = medium.ledger
    assert ledger is not None
    shared: Any = ledger._shared  # type: ignore[attr-defined]  # pyright: ignore
    for thing in (
        me,
        me.health(),
        me.members(),
        me.term("A"),
        me.leaders("A"),
        ledger,
        shared,
        shared.settings,
        shared.link,
    ):
        yield repr(thing)
        yield str(thing)
    yield ledger.url
    yield ledger.identity()
    with pares.Observer(url, group="g") as observer:
        yield repr(observer.world.members)
        yield repr([*observer.events(timeout=0.1)])
        yield repr(observer)
    from prometheus_client import CollectorRegistry, generate_latest

    from pares.metrics import prometheus

    registry = CollectorRegistry()
    prometheus(me, registry)
    yield generate_latest(registry).decode()
    for path in ("/livez", "/readyz"):
        yield json.dumps([path, str(me.health())])


@pytest.mark.brokers
def test_a_group_that_logs_in_on_a_real_server(
    tmp_path: Path, loud: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config, wrong = tmp_path / "client.properties", tmp_path / "wrong" / "client.properties"
    wrong.parent.mkdir()
    config.write_text(f"user=ann\npassword={SECRET}\n")
    wrong.write_text(f"user=ann\npassword=not-{SECRET}\n")
    texts: list[str] = []
    with Nats(users={"ann": SECRET}) as nats:
        url = nats.stream_url("work", config=str(config))
        with pares.Member(url, group="g", roles=["A"], session=1.0) as me:
            assert me.wait("A", PATIENCE)
            texts += surfaces(me, url)
            for arguments in COMMANDS:
                if arguments[0] not in ("audit", "run", "drain"):
                    texts.append(command([*arguments, "--group", "g"], url, monkeypatch, capfd))
            for bad in (nats.stream_url("work", config=str(wrong)), nats.stream_url("work")):
                with pytest.raises(ParesError) as caught:
                    pares.ledger.open(bad)
                texts.append(told(caught.value))
                texts.append(command(["doctor"], bad, monkeypatch, capfd))
            nats.kill(1)
            medium = me._medium  # pyright: ignore[reportPrivateUsage]
            assert medium is not None
            ledger = medium.ledger
            assert ledger is not None
            with pytest.raises(ParesError) as caught:
                ledger.append(b"x")
            texts.append(told(caught.value))
        texts.append(repr(nats))
    entries = [text for text in texts if text]
    assert len(entries) > 30
    assert not [text[:40] for text in entries if leaks(text)]
    assert not leaks(loud.text)
    gc.collect()


# The watch ---------------------------------------------------------------------------------------------------------------

INNER = """
import base64, logging, os, subprocess, sys
from urllib.parse import quote
import pytest
from planted_secret import SECRET

def test_printed(): print("the URL is", SECRET)
def test_quoted(): print(quote(SECRET, safe=""), file=sys.stderr)
def test_in_base64(): print(base64.b64encode(b"\\0user\\0" + SECRET.encode()).decode())
def test_logged(): logging.getLogger("pares.x").debug("password=%s", SECRET)
def test_raised(): raise ValueError(SECRET)
def test_by_a_child(): subprocess.run([sys.executable, "-c", "from planted_secret import SECRET; print(SECRET)"], check=True)
def test_in_a_file(tmp_path): (tmp_path / "report.html").write_text("<p>" + SECRET)
def test_in_a_file_of_settings(tmp_path): (tmp_path / "client.properties").write_text(SECRET)
def test_that_is_clean(tmp_path): print("secret"), (tmp_path / "x").write_text("pl4nted")

@pytest.fixture
def late():
    yield
    print(SECRET)

def test_at_the_end(late): pass
"""


def test_the_watch_sees_each_leak(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from planted_secret import Watch\n\ndef pytest_configure(config): config.pluginmanager.register(Watch())\n"
    )
    (tmp_path / "test_secrets.py").write_text(INNER)
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
        "-q",
    ]
    ran = subprocess.run(
        [*command, f"--basetemp={tmp_path}/left", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 1, ran.stdout[-2000:]
    found = [line for line in ran.stdout.splitlines() if line.startswith("PLANTED SECRET FOUND")]
    for name in ("printed", "quoted", "in_base64", "logged", "raised", "by_a_child", "at_the_end"):
        assert any(f"::test_{name}:" in line for line in found), (name, ran.stdout[-2000:])
    assert any("report.html" in line for line in found)
    assert not any("settings" in line or "clean" in line for line in found)
    assert not leaks(ran.stdout + ran.stderr), "what it found it does not repeat"
    shutil.rmtree(tmp_path / "left")  # or the watch over this very run would find it


def test_its_forms_are_all_different() -> None:
    assert len(forms()) >= 8
    assert all(leaks(f"x{form}y") for form in forms())
    assert not leaks("the planted secret")

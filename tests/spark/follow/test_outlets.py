"""Receivers of alarms that are slow, down, or refuse: the audit goes on, and no alarm is lost without a word."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from histories import broken
from tests.spark.follow.growing import Growing, Run

from pares.core.errors import ConfigError
from pares.ledger import open as open_ledger
from pares.spark.follow.outlets import Courier, Message, Topic, Webhook, receiver

pytestmark = pytest.mark.timeless
PATIENCE = 60.0


class Hook:
    """A web server that answers what it is told to."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.taken: list[tuple[str, dict[str, object]]] = []
        self.tries = self.fetched = 0
        self.to = ""
        self.open = threading.Event()
        self.open.set()


@contextmanager
def served() -> Iterator[tuple[Hook, str]]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            hook.tries += 1
            assert hook.open.wait(PATIENCE)
            code = hook.answers.pop(0) if hook.answers else 204
            if code < 300:
                hook.taken.append((self.headers["Idempotency-Key"], body))
            self.send_response(code)
            if code == 302:
                self.send_header("Location", hook.to)
            self.end_headers()

        def do_GET(self) -> None:
            hook.fetched += 1
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hook, f"http://127.0.0.1:{server.server_port}/secret-part"
    finally:
        hook.open.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _message(number: int) -> Message:
    return Message(number, f"a.{number}", json.dumps({"number": number}).encode())


def _until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


def test_what_fails_is_tried_again_in_order_and_said() -> None:
    with served() as (hook, url):
        hook.answers = [503, 500, 429]
        courier = Courier(Webhook(url), first_s=0.01, longest_s=0.02)
        assert all(courier.put(_message(number)) for number in range(1, 6))
        assert courier.drained(PATIENCE)
        assert [key for key, _ in hook.taken] == [f"a.{number}" for number in range(1, 6)]
        assert [message.number for message in courier.done()] == [1, 2, 3, 4, 5]
        counts = courier.counts()
        assert (counts.delivered, counts.failed, counts.refused, counts.overflowed) == (5, 3, 0, 0)
        down, up = courier.words()
        assert "not delivered (it answers 503)" in down
        assert "takes alarms again" in up
        assert "secret" not in down + up
        assert courier.close() == 0


def test_waits_between_tries_grow_up_to_a_longest() -> None:
    class Never:
        name = "never"

        def __init__(self) -> None:
            self.at: list[float] = []

        def send(self, message: Message) -> None:
            from pares.spark.follow.outlets import NotNow

            self.at.append(time.monotonic())
            raise NotNow("down")

        def close(self) -> None:
            pass

    never = Never()
    courier = Courier(never, first_s=0.02, longest_s=0.16)
    courier.put(_message(1))
    _until(lambda: len(never.at) >= 7)
    waits = [b - a for a, b in zip(never.at, never.at[1:], strict=False)]
    for wait, least in zip(waits, (0.02, 0.04, 0.08, 0.16, 0.16, 0.16), strict=False):
        assert wait >= least * 0.99
    assert courier.close() == 1, "what has not arrived is counted at the end"


def test_a_redirection_is_no_delivery() -> None:
    with served() as (hook, url):
        hook.answers = [302]
        hook.to = f"{url}/elsewhere"
        courier = Courier(Webhook(url), first_s=0.01)
        courier.put(_message(1))
        assert courier.drained(PATIENCE)
        assert courier.counts().failed == 1
        assert [key for key, _ in hook.taken] == ["a.1"]
        assert hook.fetched == 0, "the POST did not become a GET of another page"
        courier.close()


def test_what_is_refused_for_good_holds_nothing_up() -> None:
    with served() as (hook, url):
        hook.answers = [400]
        courier = Courier(Webhook(url), first_s=0.01)
        courier.put(_message(1))
        courier.put(_message(2))
        assert courier.drained(PATIENCE)
        assert [key for key, _ in hook.taken] == ["a.2"]
        assert courier.counts().refused == 1
        assert any("refuses alarm a.1 (it answers 400)" in word for word in courier.words())
        courier.close()


def test_a_receiver_that_hangs_neither_stops_the_audit_nor_loses_an_alarm(tmp_path: Path) -> None:
    """Its queue has room for three; what finds it full is told from the journal when it takes alarms again."""
    play = broken(3)
    log = Growing(tmp_path / "log.db")
    log.append(play.entries)
    with served() as (hook, url):
        hook.open.clear()
        courier = Courier(Webhook(url), queue=3, first_s=0.01)
        shown: list[str] = []
        run = Run(log, play.group, tmp_path / "kept", lambda alarm: shown.append(alarm.id), [courier])
        run.catch_up()
        assert len(shown) > 5, "the console has them all, with the receiver hanging"
        assert courier.counts().overflowed == len(shown) - 3
        assert any("3 alarms wait, and no more are taken" in word for word in run.said)
        run.follower.save()  # what has not arrived is carried over
        hook.open.set()
        end = time.monotonic() + PATIENCE
        while len({key for key, _ in hook.taken}) < len(shown):
            assert time.monotonic() < end
            run.follower.step()
            time.sleep(0.01)
        assert [str(body["id"]) for _, body in hook.taken] == shown, "each once, in order"
        assert courier.close() == 0
        run.kill()
    log.close()


def test_what_had_not_arrived_arrives_after_a_restart(tmp_path: Path) -> None:
    play = broken(3)
    log = Growing(tmp_path / "log.db")
    log.append(play.entries)
    with served() as (hook, url):
        hook.open.clear()
        courier = Courier(Webhook(url), first_s=0.01)
        shown: list[str] = []
        run = Run(log, play.group, tmp_path / "kept", lambda alarm: shown.append(alarm.id), [courier])
        run.catch_up()
        run.kill()
        hook.answers = [503]  # of the try that is under way
        hook.open.set()
        assert courier.close() > 0
        hook.taken.clear()
        after = Courier(Webhook(url), first_s=0.01)
        run = Run(log, play.group, tmp_path / "kept", lambda alarm: shown.append(alarm.id), [after])
        assert after.drained(PATIENCE)
        assert len(hook.taken) == len(shown) > 0
        assert run.follower.close() == 0
        run.kill()
    log.close()


def test_a_topic_gets_alarms_as_records(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/alarms.db"
    courier = Courier(Topic(f"{url}#of%20work"))
    courier.put(_message(1))
    assert courier.drained(PATIENCE)
    assert courier.close() == 0
    ledger = open_ledger(url)
    (entry,) = ledger.topic("of work", partitions=1).read(0)
    assert json.loads(entry.payload) == {"number": 1}
    ledger.close()


@pytest.mark.parametrize("told", ["mail:me", "webhook:", "webhook:ftp://host/", "webhook:host", "topic:"])
def test_what_is_no_receiver_is_refused(told: str) -> None:
    with pytest.raises(ConfigError, match="--alert"):
        receiver(told)

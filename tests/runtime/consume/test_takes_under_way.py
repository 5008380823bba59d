"""At most once: takes that are under way when their term ends by plan (C4)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from consume_tools import Handler, Running, Topic, Worker
from runtime_tools import CALM, Faulty, until

import pares
from pares.core import events as ev
from pares.runtime.consume.consumer import Consumer

SETTINGS: dict[str, Any] = {"group": "g", "session": CALM, "settle": 0.05, "delivery": "at-most-once"}


def test_c4_a_handover_waits_for_what_is_being_taken(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next holder works on what comes behind it: else both work on one partition, and its order is broken."""
    topic, ledger = Topic(), Faulty(pares.open(url))
    handler, asked = Handler(stuck=lambda item: True), threading.Event()
    with Consumer(ledger, topics=[topic], name="a", **SETTINGS) as one:
        running = Running(one, handler)
        until(lambda: len(one.claims()) == 1, "it has the partition")
        with Consumer(url, topics=[topic], name="b", **SETTINGS) as two:
            until(lambda: two.state == "live", "another one has come")
            member = one._member
            request = member.request

            def step_down_at_once(event: ev.Event) -> None:
                request(event)
                if isinstance(event, ev.Took):
                    request(ev.StepDown(event.seat[0]))
                    asked.set()

            monkeypatch.setattr(member, "request", step_down_at_once)
            ledger.hold_appends()
            until(ledger.held.is_set, "an append is under way: what is asked for now is served together")
            topic.append("x")
            assert asked.wait(30)
            ledger.free.set()
            until(lambda: len(handler.calls) == 1, "it was taken, and is being handled")
            threading.Event().wait(0.5)
            assert two.claims() == [], "it waits"
            handler.go.set()
            until(lambda: len(two.claims()) == 1, "handed over")
            assert two.claims()[0].position == 1
        one.close()
        running.join()


def test_c4_a_handover_does_not_wait_for_what_it_came_before(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked for behind it is not taken, and the next holder gives it out."""
    topic, ledger = Topic(), Faulty(pares.open(url))
    handler, asked = Handler(), threading.Event()
    with Consumer(ledger, topics=[topic], name="a", **SETTINGS) as one:
        running = Running(one, handler)
        until(lambda: len(one.claims()) == 1, "it has the partition")
        with Consumer(url, topics=[topic], name="b", **SETTINGS) as two:
            until(lambda: two.state == "live", "another one has come")
            member = one._member
            request = member.request

            def step_down_before(event: ev.Event) -> None:
                if isinstance(event, ev.Took):
                    request(ev.StepDown(event.seat[0]))
                    asked.set()
                request(event)

            monkeypatch.setattr(member, "request", step_down_before)
            ledger.hold_appends()
            until(ledger.held.is_set, "an append is under way: what is asked for now is served together")
            topic.append("x")
            assert asked.wait(30)
            ledger.free.set()
            worker = Worker(two)
            until(lambda: worker.offsets() == [0], "the other one has it")
            assert handler.calls == []
        worker.join()
        one.close()
        running.join()

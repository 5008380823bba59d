"""What a `ready=` check said last is what its member goes by, also when the answer comes as nobody waits for it any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pares.runtime.here import here
from pares.runtime.work import readiness
from pares.runtime.work.readiness import Readiness

MOMENT = 0.3
"""Seconds that one thread stands still for another to get ahead of it, if it can."""


def test_an_answer_in_the_moment_in_which_it_is_given_up_has_the_last_word(monkeypatch: Any) -> None:
    monkeypatch.setattr(readiness, "PATIENCE", 0)
    told, jobs, answering = list[bool](), list[Callable[[], object]](), list[threading.Thread]()

    def tell(now: bool) -> None:
        if not now:
            answering.append(threading.Thread(target=jobs.pop()))
            answering[0].start()
            answering[0].join(MOMENT)
        told.append(now)

    check = Readiness(lambda: True, 0.02, lambda job, key: jobs.append(job), tell, here())
    check.ask()
    jobs.pop()()
    assert told == [True]
    check._next = 0  # pyright: ignore
    check.ask()
    assert jobs, "it is asked again"
    check._patience = 0  # pyright: ignore
    check.ask()
    answering[0].join()
    assert told == [True, False, True]

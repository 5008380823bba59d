"""`pares.frameworks.apscheduler` on the real schedulers: jobs run where the member leads, and nowhere else."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler

import pares
from pares.frameworks.apscheduler import Jobs

PATIENCE = 30.0
EVERY = 0.05


@pytest.fixture
def url() -> str:
    return f"memory://{uuid.uuid4().hex}"


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_of_two_workers_the_one_that_leads_runs_the_job(url: str) -> None:
    ran: list[str] = []
    schedulers = [BackgroundScheduler(), BackgroundScheduler()]
    with pares.Member(url, group="g", roles=["jobs"], name="a", session=5.0) as a:
        assert a.wait("jobs", PATIENCE)
        with pares.Member(url, group="g", roles=["jobs"], name="b", session=5.0) as b:
            for scheduler, member in zip(schedulers, (a, b), strict=True):
                jobs = Jobs(scheduler, member, "jobs")

                @jobs.scheduled_job("interval", seconds=EVERY, id="tick")
                def tick(member: pares.Member = member) -> None:
                    ran.append(member.name)

                assert scheduler.get_jobs("default") or scheduler.get_job("tick")
                scheduler.start()
            try:
                until(lambda: len(ran) >= 3 and len(a.members()) == 2)
                assert {*ran} == {"a"}
                a.hand_over("jobs", to="b")
                until(lambda: ran.count("b") >= 3)
                assert ran == sorted(ran), "never the one again after the other"
            finally:
                for scheduler in schedulers:
                    scheduler.shutdown()


def test_a_handover_waits_for_a_run(url: str) -> None:
    entered, go = threading.Event(), threading.Event()

    def slow() -> None:
        entered.set()
        go.wait(PATIENCE)

    scheduler = BackgroundScheduler()
    with pares.Member(url, group="g", roles=["jobs"], name="a", session=5.0) as a:
        assert a.wait("jobs", PATIENCE)
        with pares.Member(url, group="g", roles=["jobs"], name="b", session=5.0) as b:
            Jobs(scheduler, a, "jobs").add_job(slow)  # at once, one time
            scheduler.start()
            assert entered.wait(PATIENCE)
            until(lambda: len(a.members()) == 2)
            a.hand_over("jobs", to="b")
            assert b.wait("jobs", 0.3) is None
            go.set()
            assert b.wait("jobs", PATIENCE)
    scheduler.shutdown()


def test_with_asyncio_both_kinds_of_functions(url: str) -> None:
    ran: list[str] = []

    async def awaited() -> None:
        await asyncio.sleep(0)
        ran.append("awaited")

    async def main() -> None:
        scheduler = AsyncIOScheduler()
        async with pares.aio.Member(url, group="g", roles=["jobs", "other"], name="a", session=5.0) as me:
            assert await me.wait("jobs", PATIENCE)
            jobs = Jobs(scheduler, me, "jobs", stuck_after=10)
            jobs.add_job(awaited, "interval", seconds=EVERY)
            jobs.add_job(lambda: ran.append("called"), "interval", seconds=EVERY)
            scheduler.start()
            async with asyncio.timeout(PATIENCE):
                while {*ran} != {"awaited", "called"}:
                    await asyncio.sleep(0.005)
            await me.pause("jobs", seconds=600)
            async with asyncio.timeout(PATIENCE):
                while me.leader("jobs") is not None:  # the seat is free when a run that had begun is through
                    await asyncio.sleep(0.005)
            before = len(ran)
            await asyncio.sleep(6 * EVERY)
            assert len(ran) == before, "it leads no longer"
            scheduler.shutdown()

    asyncio.run(main())


def test_what_is_refused(url: str) -> None:
    async def awaited() -> None: ...

    scheduler = BackgroundScheduler()
    with pytest.raises(pares.ConfigError, match="entered"):
        Jobs(scheduler, pares.aio.Member(url, group="g", roles=["jobs"]), "jobs")
    with pares.Member(url, group="g", roles=["jobs"]) as me:
        with pytest.raises(pares.ConfigError):
            Jobs(scheduler, me, "nobody's")
        jobs = Jobs(scheduler, me, "jobs")
        with pytest.raises(pares.ConfigError, match="coroutine"):
            jobs.add_job(awaited)
        with pytest.raises(pares.ConfigError, match="function itself"):
            jobs.add_job("module:name")  # pyright: ignore[reportArgumentType]

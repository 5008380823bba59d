"""asyncio on a stage: coroutines of users and `pares.aio` in virtual time, several event loops side by side."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import pares
from pares.testing import Stage

Said = list[tuple[str, int, float]]


async def poll(name: str, said: Said, stage: Stage) -> None:
    """Leads, and says so every 100 ms, in a body that ends with its term. It looks at the term too: of an event loop that was
    held up, the sleep may be over before the cancellation comes."""
    async with pares.aio.Member("nats://broker", group="g", roles=["mail"], name=name) as me:
        async for term in me.terms("mail"):
            async with term:
                while term:
                    said.append((name, term.token, stage.now))
                    await asyncio.sleep(0.1)


def played(seed: int = 0) -> tuple[Said, list[str]]:
    said: Said = []
    with Stage(seed=seed) as stage:
        for name in ("a", "b", "c"):
            stage.start(name, lambda name=name: asyncio.run(poll(name, said, stage)))
        stage.run(3)
        frozen = stage.leader("mail") or ""
        stage.freeze(frozen, 3)
        stage.run(4)
        dead = stage.leader("mail") or ""
        assert dead != frozen
        stage.kill(dead)
        stage.run(3)
        stage.close()
        return said, [frozen, dead, *stage.trace]


def test_bodies_end_with_their_terms_in_virtual_time() -> None:
    began = time.monotonic()
    said, (frozen, dead, *_) = played()
    assert time.monotonic() - began < 30
    tokens = [token for _, token, _ in said]
    assert tokens == sorted(tokens), "a body whose term is over says nothing more"
    assert len(set(tokens)) >= 3
    assert {name for name, _, _ in said[:5]} == {frozen}
    assert [at for name, _, at in said if name == dead][-1] < 7.1
    steps = [later[2] - one[2] for one, later in itertools.pairwise(said) if later[1] == one[1]]
    assert sorted(steps)[len(steps) // 2] == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("seed", range(12))
def test_a_term_cancels_its_body_and_nothing_after_it(seed: int) -> None:
    """The body ends by itself at the very moment at which its term is seen to be over."""
    said: Said = []
    with Stage(seed=seed) as stage:
        for name in ("a", "b"):
            stage.start(name, lambda name=name: asyncio.run(poll(name, said, stage)))
        stage.until(lambda: said)
        frozen = stage.leader("mail") or ""
        stage.freeze(frozen, 5)
        stage.run(8)
        assert stage.actors[frozen].state == "live"


def test_one_seed_is_one_history() -> None:
    assert played(3) == played(3)


def alone(program: Callable[[], Awaitable[Any]]) -> None:
    with Stage() as stage:
        actor = stage.start("a", lambda: asyncio.run(program()))  # type: ignore[arg-type]  # pyright: ignore
        stage.until(lambda: actor.state == "closed", 600)


def test_what_asyncio_has_works_as_ever() -> None:
    told: dict[str, Any] = {}
    here: contextvars.ContextVar[int] = contextvars.ContextVar("here")

    async def program() -> None:
        loop, began = asyncio.get_running_loop(), time.monotonic()
        here.set(7)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        told["timeout"] = loop.time() - began
        told["thread"] = await asyncio.to_thread(lambda: (time.sleep(10), here.get())[1])
        told["gathered"] = await asyncio.gather(*(asyncio.sleep(20, number) for number in range(3)))
        queue: asyncio.Queue[int] = asyncio.Queue()
        loop.call_soon_threadsafe(queue.put_nowait, 1)
        told["queue"] = await queue.get()

        async def numbers() -> AsyncIterator[int]:
            for number in range(3):
                await asyncio.sleep(1)
                yield number

        async for told["last"] in numbers():
            if told["last"]:
                break
        told["all"] = time.monotonic() - began

    alone(program)
    assert told.pop("timeout") == pytest.approx(5, abs=0.01)
    assert told.pop("all") == pytest.approx(37, abs=0.05)
    assert told == {"thread": 7, "gathered": [0, 1, 2], "queue": 1, "last": 1}


def test_only_background_events_and_waits_of_pares_aio() -> None:
    told: dict[str, Any] = {"runs": 0, "events": []}

    async def program() -> None:
        async with pares.aio.Member("memory://x", group="g", roles=["mail"], name="a") as me:

            async def listen() -> None:
                async for event in me.events():
                    told["events"].append(type(event).__name__)

            @me.only("mail")
            async def guarded() -> int:
                return 1

            async def task() -> None:
                told["runs"] += 1

            listening = asyncio.create_task(listen())
            told["before"] = await guarded()
            running = me.background(task, "mail", every=0.5)
            term = await me.wait("mail", 10)
            assert term
            told["leading"] = await guarded()
            await asyncio.sleep(5)
            await me.add_role("post")
            told["roles"] = me.roles()
            await me.step_down("mail")
            told["lost"] = await term.wait_lost(5)
            running.cancel()
        await listening

    alone(program)
    assert told.pop("runs") in (10, 11, 12)
    assert {"Acquired", "Revoked"} <= set(told.pop("events"))
    assert told == {"before": None, "leading": 1, "roles": {"mail": 1, "post": 1}, "lost": True}


def test_there_are_no_sockets() -> None:
    async def program() -> None:
        await asyncio.open_connection("127.0.0.1", 1)

    with pytest.raises(NotImplementedError, match="no sockets"):
        alone(program)


def test_a_stage_runs_within_an_event_loop_of_the_test() -> None:
    async def test() -> None:
        said: Said = []
        with Stage() as stage:
            stage.start("a", lambda: asyncio.run(poll("a", said, stage)))
            stage.run(1)
            before = asyncio.current_task()
            await asyncio.sleep(0)
            stage.run(1)
            assert asyncio.current_task() is before
            assert said

    asyncio.run(test())

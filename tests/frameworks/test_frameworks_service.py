"""`pares.frameworks.service` and `.django` in processes of their own: told to end, they hand over."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

import pares
from pares.frameworks.service import serve

PATIENCE = 60.0
SESSION = 30.0
"""Seconds: whoever leads sooner did not wait for it."""

SERVICE = f"""
import asyncio, sys
from pares.frameworks.service import serve

async def work(term):
    print("works", flush=True)
    await asyncio.sleep(600)

asyncio.run(serve(work, sys.argv[1], group="g", role="A", session={SESSION}))
print("over", flush=True)
"""
COMMAND = f"""
import sys
import django
from django.conf import settings
settings.configure(PARES_LEDGER=sys.argv[1])
django.setup()
from django.core.management import call_command
from pares.frameworks.django import LeaderCommand

class Command(LeaderCommand):
    group, role, session = "g", "A", {SESSION}

    def add_arguments(self, parser):
        super().add_arguments(parser)
        parser.add_argument("--word", default="")

    def lead(self, term, **options):
        self.stdout.write(options["word"])
        self.stdout.flush()
        term.wait_lost(1.0)

call_command(Command(), "--word", "works", "--name", "theirs")
"""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("script", "number", "code"),
    [
        (SERVICE, signal.SIGTERM, 0),
        (SERVICE, signal.SIGINT, 0),
        (COMMAND, signal.SIGTERM, -signal.SIGTERM),
    ],
    ids=["service, TERM", "service, INT", "django, TERM"],
)
def test_told_to_end_it_hands_over(tmp_path: Path, script: str, number: signal.Signals, code: int) -> None:
    url = f"sqlite:///{tmp_path}/group.db"
    process = subprocess.Popen([sys.executable, "-c", script, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "works\n"
        with pares.Member(url, group="g", roles=["A"], session=SESSION) as me:
            assert not me.wait("A", 0.2)
            process.send_signal(number)
            assert me.wait("A", SESSION / 2)
            assert process.wait(PATIENCE) == code
    finally:
        process.kill()
        rest = process.communicate()[0]
    assert ("over" in rest) == (script is SERVICE)


def test_what_the_work_raises_is_raised_after_the_handover() -> None:
    url = f"memory://{uuid.uuid4().hex}"

    async def work(term: pares.aio.Term) -> None:
        raise ValueError(term.token)

    async def main() -> None:
        async with pares.aio.Member(url, group="g", roles=["A"], session=SESSION, name="other") as other:
            async with asyncio.timeout(PATIENCE):
                await other.wait("A")
                serving = asyncio.create_task(serve(work, url, group="g", role="A", signals=(), session=SESSION))
                while len(other.members()) < 2:
                    await asyncio.sleep(0.005)
                await other.step_down("A")
                with pytest.raises(ValueError, match=r"\d+"):
                    await serving
                assert await other.wait("A")
                while len(other.members()) > 1:
                    await asyncio.sleep(0.005)

    asyncio.run(main())


def test_the_works_next_term_comes_after_the_first() -> None:
    url = f"memory://{uuid.uuid4().hex}"
    tokens: list[int] = []

    async def work(term: pares.aio.Term) -> None:
        tokens.append(term.token)
        await asyncio.sleep(600)

    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            serving = asyncio.create_task(serve(work, url, group="g", role="A", signals=(), session=SESSION, name="s"))
            while len(tokens) < 1:
                await asyncio.sleep(0.005)
            async with pares.aio.Member(url, group="g", roles=["A"], session=SESSION, name="o") as other:
                with pares.Admin(url, group="g") as admin:
                    admin.hand_over("A", to="o")
                assert await other.wait("A")
                await other.hand_over("A", to="s")
                while len(tokens) < 2:
                    await asyncio.sleep(0.005)
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving

    asyncio.run(main())
    assert len(tokens) == 2
    assert tokens == sorted({*tokens})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("group, role = 'g', ''", "a role ('')"),
        ("group, role = 'g', 'A'", "a ledger (None)"),
        ("group = role = 'g'; session = -1.0", "session"),
    ],
)
def test_a_command_without_what_it_needs_says_so(settings: str, said: str) -> None:
    ledger = "PARES_LEDGER='memory://x'" if "session" in settings else ""
    script = f"""
import os
os.environ.pop("PARES_LEDGER", None)
import django
from django.conf import settings
settings.configure({ledger})
django.setup()
from django.core.management import CommandError, call_command
from pares.frameworks.django import LeaderCommand
class Command(LeaderCommand):
    {settings}
try:
    call_command(Command())
except CommandError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said in done.stdout


@pytest.mark.parametrize("module", ["celery", "django"])
def test_what_is_not_installed_is_named(module: str) -> None:
    script = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "import pares\n"
        f"try: import pares.frameworks.{module}\n"
        "except pares.CapabilityError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert f"pip install {module}" in done.stdout

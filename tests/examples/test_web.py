"""The web example on the real servers: gunicorn with and without --preload, uvicorn with Starlette and with FastAPI;
and without one: asyncio, a plain script, `pares run`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from examples.web import jobs
from examples.web.run import PATIENCE, ROOT, SERVERS, Outcome, Tick, run

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("kind", list(SERVERS))
def test_workers_that_are_replaced_one_by_one(kind: str, tmp_path: Path) -> None:
    outcome = run(kind, tmp_path, deploys=3, session=5.0)
    assert outcome.clean, outcome
    assert len(outcome.workers) >= 2
    assert len(outcome.gaps) >= 3, "each was a planned move, and not a session that ran out"
    assert max(outcome.gaps) < 5.0, "nor did it take one"


@pytest.mark.parametrize("kind", ["gunicorn", "uvicorn"])
def test_workers_that_are_killed(kind: str, tmp_path: Path) -> None:
    outcome = run(kind, tmp_path, deploys=2, session=5.0, how=signal.SIGKILL)
    assert outcome.clean, outcome
    assert len(outcome.workers) >= 2


def test_what_is_clean() -> None:
    def outcome(*ticks: tuple[int, int]) -> Outcome:
        return Outcome([Tick(pid, 0.0, token) for pid, token in ticks], [], [], set())

    assert outcome((1, 5), (1, 5), (2, 7)).clean
    assert not outcome().clean, "nothing at all is no success"
    assert not outcome((1, 5), (2, 5)).clean, "two workers in one term"
    assert not outcome((1, 5), (2, 7), (1, 5)).clean, "an old term's worker after a new one's"


def test_a_member_made_before_the_fork_says_what_to_do(tmp_path: Path) -> None:
    """The mistake that --preload invites: the application makes its member when it is imported, which is in the master."""
    (tmp_path / "mistaken.py").write_text(
        "import os, pares\n"
        "member = pares.Member(os.environ['PARES_LEDGER'], group='g', roles=['A'])\n"
        "assert member.wait('A', 60)\n"
        "def app(environ, start_response): ...\n"
    )
    (tmp_path / "conf.py").write_text(
        "import os\n"
        "bind, workers = '127.0.0.1:0', 1\n"
        "def files():\n"
        "    links = [f'/proc/self/fd/{number}' for number in os.listdir('/proc/self/fd')]\n"
        "    return [f for f in (os.readlink(link) for link in links if os.path.lexists(link)) if '/g.db' in f]\n"
        "def when_ready(server):\n"
        "    server.log.error('master has %s', files())\n"
        "def post_worker_init(worker):\n"
        "    worker.log.error('inherited: %s.', files())\n"
        "    import mistaken\n"
        "    worker.log.error('leads: %s', mistaken.member.holds('A'))\n"
        "    mistaken.member.wait('A')\n"
    )
    environment = {
        **os.environ,
        "PARES_LEDGER": f"sqlite:///{tmp_path}/g.db",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-m", "gunicorn", "-c", str(tmp_path / "conf.py"), "--preload", "mistaken:app"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert "g.db-locks/" in done.stderr.partition("master has")[2].partition("\n")[0]
    assert "inherited: []." in done.stderr, "no file and no lock of the master's member"
    assert "leads: False" in done.stderr
    assert "ForkedError" in done.stderr
    assert "make a new one after the fork" in done.stderr


def test_probes_of_the_applications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starlette's and FastAPI's own lifespan, and the probes below the path where they are mounted."""
    monkeypatch.setattr(jobs, "LEDGER", f"sqlite:///{tmp_path}/web.db")
    monkeypatch.setattr(jobs, "TICKS", str(tmp_path / "ticks.txt"))
    for module in [name for name in ("examples.web.asgi", "examples.web.api") if name in sys.modules]:
        monkeypatch.delitem(sys.modules, module)
    from examples.web import api, asgi

    async def status(app: Any, path: str, query: bytes = b"") -> int:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        scope = {"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": path, "headers": []}
        await app(scope | {"raw_path": path.encode(), "query_string": query, "root_path": ""}, receive, send)
        return sent[0]["status"]

    async def main(app: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            async with app.router.lifespan_context(app):
                while await status(app, "/pares/leader", b"role=scheduler") != 200:
                    await asyncio.sleep(0.01)
                assert await status(app, "/pares/livez") == 200
            assert await status(app, "/pares/livez") == 503

    for app in (asgi.app, api.app):
        asyncio.run(main(app))
        assert asgi.lifespan.member is not None
        assert asgi.lifespan.member.state == "closed", "it has left with the application"

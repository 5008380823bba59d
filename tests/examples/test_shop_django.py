"""A Django management command on several hosts, and a fence on Django's own connection."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from examples.shop_django.run import ROOT, run

from pares.dev import Postgres

pytestmark = pytest.mark.processes


def test_the_command_on_sqlite(tmp_path: Path) -> None:
    tokens = run(tmp_path, rounds=2)
    assert tokens == sorted(tokens)
    assert len(set(tokens)) >= 3


@pytest.mark.parametrize("freeze", [False, True])
def test_the_command_on_postgresql(postgres: Postgres, tmp_path: Path, freeze: bool) -> None:
    url = urlunsplit(urlsplit(postgres.url)._replace(path=f"/shop_{freeze}".lower()))
    with psycopg.connect(postgres.url, autocommit=True) as admin, contextlib.ExitStack() as stack:
        name = url.rpartition("/")[2]
        admin.execute(f"CREATE DATABASE {name}".encode())
        stack.callback(lambda: admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode()))
        tokens = run(tmp_path, rounds=2, postgres=url, freeze=freeze)
    assert tokens == sorted(tokens)
    assert len(set(tokens)) >= 3


SCRIPT = """
import django
from django.conf import settings
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
django.setup()
from django.db import connection, connections, transaction
from types import SimpleNamespace
from pares.fence import SqlFence, Stale
from pares import ConfigError
fence, term = SqlFence(), lambda token: SimpleNamespace(role="r", seat=0, token=token)
try:
    fence.check(connection, term(5))
except ConfigError as error:
    print("refused outside atomic():", "commits each statement by itself" in str(error))
with transaction.atomic():
    fence.check(connection, term(5))
try:
    with transaction.atomic():
        fence.check(connections["default"], term(4))
except Stale as stale:
    print("stale", stale.token, stale.seen)
try:
    with transaction.atomic():
        fence.check(connection, term(7))
        1 / 0
except ZeroDivisionError:
    print("seen", fence.seen(connection, "r"))
"""


def test_a_fence_on_djangos_connection() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "refused outside atomic(): True\nstale 4 5\nseen 5\n", done.stderr


@pytest.mark.parametrize(("target", "needs"), [("shop", "django"), ("web", "frameworks"), ("beat", "frameworks")])
def test_make_installs_no_spark_for_it(tmp_path: Path, target: str, needs: str) -> None:
    """What `make` would do where nothing is installed yet."""
    command = ["make", "-n", target, f"VENV={tmp_path}/venv", f"PYTHON={sys.executable}", "JAVA_FROM_PYPI=no"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "pip install" in said
    assert needs in said
    assert "spark" not in said.replace(str(tmp_path), "").lower()

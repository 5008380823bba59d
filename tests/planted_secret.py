"""One secret for all tests that need a password or a token, and a watch that it comes out nowhere.

The watch is a pytest plugin, in force whenever these tests run. It looks through everything that a test says (what was
captured of standard output and error, of its own and of the processes that it started; log records of `pares` from DEBUG on;
tracebacks) and, at the end, through all files that tests left in their folders. What comes from files that hold it on purpose
(settings of clients and servers) is no leak. A leak fails the test that it is seen in, or the run.
"""

from __future__ import annotations

import base64
import html
import json
import logging
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, quote_plus

import pytest

SECRET: Final = "pl4nted/secret+of=the&tests"
"""Every form of it that is written another way differs from it."""
ON_PURPOSE: Final = ("server.properties", "server.conf", "client.properties")
"""Names of files whose purpose it is to hold secrets."""
LARGEST: Final = 64 << 20


def forms(secret: str = SECRET) -> list[str]:
    """The secret as it may be written."""
    plain = [secret, quote(secret, safe=""), quote(secret), quote_plus(secret), html.escape(secret)]
    plain += [json.dumps(secret)[1:-1], repr(secret)[1:-1], secret.encode().hex()]
    # In base64 a text stands in one of three ways, by what comes before it; its first and last letters mix with the neighbours.
    for before in range(3):
        whole = base64.b64encode(b"x" * before + secret.encode()).decode()
        plain.append(whole[4 if before else 0 : -4])
    return [*dict.fromkeys(plain)]


_FORMS: Final = forms()
_BYTES: Final = [form.encode() for form in _FORMS]


def leaks(text: str) -> bool:
    return any(form in text for form in _FORMS)


def redacted(text: str) -> str:
    """The text with <SECRET> in place of it."""
    for form in sorted(_FORMS, key=len, reverse=True):
        text = text.replace(form, "<SECRET>")
    return text


def file_leaks(path: Path) -> bool:
    """Whether the secret stands in the file, in any form, as UTF-8 or UTF-16."""
    if path.name in ON_PURPOSE or path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
        return False
    content = path.read_bytes()
    return any(form in content or form.decode().encode("utf-16-le") in content for form in _BYTES)


def files_that_leak(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        try:
            if file_leaks(path):
                yield path
        except OSError:
            continue  # gone meanwhile, or not ours to read


class Watch:
    """The plugin."""

    def __init__(self) -> None:
        self.found: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Everything is logged, in every test: costs nothing that can be measured, for nothing is said per beat."""
        log = logging.getLogger("pares")
        before = log.level
        log.setLevel(logging.DEBUG)
        try:
            return (yield)
        finally:
            log.setLevel(before)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        seen = [name for name, text in report.sections if leaks(text)]
        if leaks(report.longreprtext):
            seen.append("traceback")
        if seen:
            self.found.append(f"{item.nodeid}: {', '.join(seen)}")
            report.outcome = "failed"
            report.longrepr = f"the planted secret came out: {', '.join(seen)}\n{redacted(report.longreprtext)}"
            report.sections = [(name, redacted(text)) for name, text in report.sections]
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        factory: Any = getattr(session.config, "_tmp_path_factory", None)
        if factory is not None and factory._basetemp is not None:
            self.found += [f"file {path}" for path in files_that_leak(Path(factory._basetemp))]
        if self.found:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for place in self.found:
            terminalreporter.write_line(f"PLANTED SECRET FOUND in {place}", red=True)

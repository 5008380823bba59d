"""What the pages name is there: files, headings, commands with their options, targets of make, modules, names of pares."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from doc_pages import PAGES, ROOT, anchors, commands, links, snippets
from typer.main import get_command

from pares.cli.app import app

MAKE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKE, re.MULTILINE))
COMMANDS = sorted({(page, command) for page in PAGES for command in commands(page)})
OPTION = re.compile(r"-{1,2}[A-Za-z][\w-]*")
LOCAL = re.compile(r"(?<![\w.])/(tmp|home|root|work|Users|opt|mnt)/|file://(?!/(FOLDER|folder|srv/work/ledger)\b)")
"""Places of one machine, which mean nothing on another; but for examples of a ledger's URL."""


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert not path.startswith("/"), f"{link}: a link from the root of a disk"
        assert target.is_relative_to(ROOT), f"{name(page)} links out of the project: {link}"
        assert target.exists(), f"{name(page)} links to {link}, which is not there"
        if anchor:
            assert anchor in anchors(target), (
                f"{name(page)} links to {link}; {name(target)} has {sorted(anchors(target))}"
            )


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_nothing_of_one_machine(page: Path) -> None:
    assert [line for line in page.read_text().splitlines() if LOCAL.search(line)] == []


def test_every_page_can_be_reached() -> None:
    """By links, from the first page."""
    seen, ahead = set[Path](), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        ahead += [(page.parent / path).resolve() for path in (link.partition("#")[0] for link in links(page)) if path]
    assert [name(page) for page in PAGES if page not in seen] == []


def test_the_table_of_contents_has_every_page() -> None:
    contents = ROOT / "docs" / "README.md"
    linked = {link.partition("#")[0] for link in links(contents)}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"} <= linked


def options_of(command: Any) -> set[str]:
    context = typer.Context(command)
    return {option for param in command.get_params(context) for option in (*param.opts, *param.secondary_opts)}


def words(command: str) -> list[str]:
    """As a shell would split it; what stands within a sentence may have half a pair of quotes."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def wrong_of_pares(words: list[str]) -> str | None:
    """What is wrong with a command line of pares, as far as its documentation may be: names and options."""
    command: Any = get_command(app)
    known = options_of(command)
    for word in words:
        if word == "--":
            return None
        if found := OPTION.match(word):
            if found[0] not in known:
                return f"{command.name} has no option {found[0]}"
        elif (
            hasattr(command, "commands")
            and not word.startswith(("[", "<", "$"))
            and word.isidentifier()
            and word.islower()
        ):
            if word not in command.commands:
                return f"{command.name} has no command {word}"
            command = command.commands[word]
            known |= options_of(command)
    return None


def test_commands_and_options_are_there() -> None:
    found = [(page, command) for page, command in COMMANDS if command.startswith("pares ")]
    assert len(found) > 50
    wrong: list[str] = []
    for page, command in found:
        text = re.sub(r"[\[\]…]|\.\.\.", " ", command)
        said = wrong_of_pares(words(text)[1:])
        if said:
            wrong.append(f"{name(page)}: `{command}`: {said}")
    assert wrong == []


def test_the_check_of_commands_sees_what_is_wrong() -> None:
    assert wrong_of_pares(["watch", "--interval", "1"]) is None
    assert wrong_of_pares(["roles", "add", "--seats", "2", "x"]) is None
    assert wrong_of_pares(["run", "--role", "r", "--", "x", "--fast"]) is None
    assert wrong_of_pares(["wach"]) == "pares has no command wach"
    assert wrong_of_pares(["watch", "--speed", "1"]) == "watch has no option --speed"
    assert wrong_of_pares(["roles", "add", "--speed=1"]) == "add has no option --speed"


def test_targets_and_modules_are_there() -> None:
    targets = [(page, command) for page, command in COMMANDS if command.startswith("make ")]
    modules = [(page, command) for page, command in COMMANDS if command.startswith("python -m ")]
    assert len(targets) > 5
    assert len(modules) > 5
    for page, command in targets:
        assert command.split()[1] in TARGETS, f"{name(page)}: `{command}`"
    for page, command in modules:
        module = command.split()[2]
        if not re.search(r"[A-Z]", module):
            assert (ROOT / Path(*module.split("."))).exists() or importlib.util.find_spec(module), (
                f"{name(page)}: `{command}`"
            )


def test_names_of_the_package_are_there() -> None:
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]
    others = {
        *loggers(),
        "pares.bell",
        "pares.bus",
        "pares.db",
        "pares.ledgers",
        "pares.log",
        "pares.terms",
    }  # topics, subjects, a file, a group of entry points, and a metric's name in OpenTelemetry
    found = {
        (page, whole)
        for page in pages
        for whole in re.findall(r"\bpares(?:\.[a-z_]\w*|\.[A-Z]\w*[a-z]\w*)+", page.read_text())
    }
    assert len(found) > 30
    for page, whole in sorted(found):
        assert whole in others or resolves(whole), f"{name(page)} names {whole}, which is not there"


def loggers() -> set[str]:
    """The loggers of the package, by its source."""
    source = "".join(path.read_text() for path in (ROOT / "src" / "pares").rglob("*.py"))
    return set(re.findall(r'getLogger\("(pares\.[\w.]+)"\)', source))


def first_cells(page: Path, title: str) -> list[str]:
    section = page.read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)


def test_all_loggers_are_documented_and_no_others() -> None:
    told = first_cells(ROOT / "docs" / "operating.md", "Logs")
    assert {cell for cell in told if cell.startswith("pares.")} == loggers()


def test_all_metrics_are_documented_and_no_others() -> None:
    from pares.metrics.table import CONSUMING, PARTITIONS, SPLITS, TIMES, VALUES

    told = first_cells(ROOT / "docs" / "operating.md", "Metrics")
    assert sorted(told) == sorted(metric.name for metric in (*VALUES, *CONSUMING, *SPLITS, *PARTITIONS, *TIMES))


def test_all_reasons_are_documented_and_no_others() -> None:
    from pares.core import reasons

    section = (ROOT / "docs" / "operating.md").read_text().split("### Reasons\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    told = {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}
    shared_out = {reasons.REVOKED, reasons.LOST, reasons.SUPERSEDED}
    allcall = {reasons.OUTRANKED, reasons.OUTBID, reasons.ISOLATED}
    assert told == (reasons.REASONS | shared_out | allcall) - {reasons.FENCED}


def resolves(whole: str) -> bool:
    value: Any = importlib.import_module("pares")
    words = whole.split(".")[1:]
    for position, word in enumerate(words):
        try:
            value = getattr(value, word)
        except AttributeError:
            try:
                value = importlib.import_module(".".join(["pares", *words[: position + 1]]))
            except ImportError:
                return False
    return True


def test_every_block_says_its_language_or_is_a_command() -> None:
    for page in PAGES:
        for snippet in snippets(page):
            assert snippet.language in ("", "python", "sh", "console", "toml", "sql", "text"), (
                f"{name(page)}:{snippet.line}"
            )

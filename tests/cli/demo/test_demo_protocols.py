"""The demo by protocols other than claims: real processes, kills and freezes; and what is judged of it, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_log import Ran, pares, pares_here

from pares.core.errors import ConfigError
from pares.demo.law import law_of

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


def demo(folder: Path, protocol: str) -> Ran:
    env = {"TMPDIR": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    given = ("--plain", "--no-audit", "--seconds", "8", "--members", "3", "--roles", "3")
    return pares("demo", *given, "--protocol", protocol, env=env, timeout=300)


@pytest.mark.parametrize("protocol", ["neli", "fast-neli", "nele", "allcall"])
def test_members_share_the_feeds_and_are_killed(tmp_path: Path, protocol: str) -> None:
    ran = demo(tmp_path, protocol)
    assert ran.code == 0, ran
    said = ran.out
    assert "3 members share 3 instruments" in said
    assert "is killed (SIGKILL)" in said
    assert " → " in said, "what it led went to others"
    quotes = next(line for line in said.splitlines() if line.startswith("quotes published"))
    assert int(quotes.split()[2]) > 30
    if law_of(protocol, overlap=False).two:
        assert "fence:             none: two leaders for a moment are what was asked for" in said
    else:
        assert "duplicates:        none" in said
        assert "0 landed" in said
    assert list(tmp_path.iterdir()) == [], "nothing is left"


def test_what_can_not_be_judged_is_said() -> None:
    allcall = law_of("allcall", overlap=False)
    assert "no history that Spark could judge" in allcall.why_no_audit
    assert allcall.two
    for protocol in ("claims", "neli", "fast-neli", "nele"):
        assert not law_of(protocol, overlap=False).why_no_audit
    assert law_of("claims", overlap=True).settings["overlap"] > 0
    with pytest.raises(ConfigError, match="does not go with --protocol neli"):
        law_of("neli", overlap=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--protocol", "raft"), "'raft' is not in this version"),
        (("--protocol", "neli", "--overlap"), "does not go with"),
    ],
)
def test_wrong_usage_begins_nothing(options: tuple[str, ...], said: str) -> None:
    ran = pares_here("demo", "--no-audit", *options)
    assert ran.code in (1, 2)
    assert said in ran.one_line

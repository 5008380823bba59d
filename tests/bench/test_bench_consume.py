"""The arithmetic of the benchmarks of consumers: rates, standstills, slopes, order by key, and what was told to be when."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from bench.cases import Row
from bench.consume import by_pyrallel, claims, kept, memory, order, picture, plan, replay, settle, stage, timeline, ways
from bench.consume.__main__ import IMAGE, told, write
from bench.consume.crew import Crew, Led
from bench.consume.order import Handled, Order
from bench.consume.throughput import BY_BATCH, of_batch
from bench_run import ROOT

from pares.core.wire.reader import Reader

S = 1_000_000_000


def test_a_rate_is_of_the_time_between_and_of_all_workers() -> None:
    lines = [[(0, 0), (10 * S, 1000)], [(5 * S, 0), (10 * S, 50)]]
    assert timeline.rate(lines, 5 * S, 10 * S) == pytest.approx((500 + 50) / 5)
    with pytest.raises(ValueError, match="no time"):
        timeline.rate(lines, S, S)


def test_a_count_is_in_proportion_between_two_points_and_stays_after_the_last() -> None:
    line = [(10, 0), (20, 100)]
    assert [timeline.count_at(line, at) for at in (5, 10, 15, 20, 99)] == [0, 0, 50, 100, 100]


def test_a_steady_rate_leaves_out_what_came_before_the_last_had_begun() -> None:
    early = [(0, 0), (10 * S, 900), (20 * S, 1000)]
    late = [(10 * S, 0), (20 * S, 300)]
    assert timeline.steady({"a": early, "b": late, "idle": []}) == pytest.approx((100 + 300) / 10)
    with pytest.raises(ValueError, match="no worker"):
        timeline.steady({"idle": []})


def test_a_standstill_counts_from_the_event_and_up_to_the_end() -> None:
    line = [(1 * S, 1), (4 * S, 2), (5 * S, 3)]
    assert timeline.standstill(line, 0, 6 * S) == 3
    assert timeline.standstill(line, 5 * S, 12 * S) == 7
    assert timeline.standstill(line, 2 * S, 4 * S + 1) == 2


def test_a_slope_is_that_of_a_line_and_nothing_of_one_point() -> None:
    assert timeline.slope([(x, 3 * x + 1) for x in range(10)]) == pytest.approx(3)
    assert timeline.slope([(1, 5)]) == 0
    assert timeline.slope([(1, 5), (1, 9)]) == 0


def test_growth_leaves_out_the_warming_up() -> None:
    looks = [(0.0, 10.0)] + [(60.0 * n, 50.0 + n) for n in range(1, 10)]
    assert memory.growth(looks) == pytest.approx(60)


def test_order_sees_what_was_overtaken_what_ran_together_and_what_came_twice() -> None:
    good = [Handled(1, n, 10 * n, 10 * n + 10) for n in range(5)]
    assert order.judged(good) == Order(5, 0, 0, 0)
    assert order.judged([*good, Handled(1, 2, 100, 110)]) == Order(5, 1, 0, 0)
    assert order.judged([Handled(1, 0, 0, 10), Handled(1, 1, 5, 15)]) == Order(2, 0, 1, 1)
    # The later one first, one after the other: overtaken, though nothing ran together.
    assert order.judged([Handled(1, 1, 0, 10), Handled(1, 0, 20, 30)]) == Order(2, 0, 1, 0)
    # Other keys are in nobody's way.
    assert order.judged([Handled(1, 0, 0, 10), Handled(2, 0, 0, 10)]) == Order(2, 0, 0, 0)


def test_what_is_written_of_a_record_is_read_again_by_either_sort_of_worker(tmp_path: Path) -> None:
    row = Handled(7, 3, 10, 20)
    (tmp_path / "a").write_bytes(order.ROW.pack(*row))
    (tmp_path / "b").write_bytes(by_pyrallel._ROW.pack(*row))
    assert order.read([tmp_path / "a", tmp_path / "b"]) == [row, row]


def test_each_key_has_one_partition_and_numbers_in_turn() -> None:
    made = [stage.message(number, 4, 12) for number in range(48)]
    assert {len(payload) for _, _, payload in made} == {stage.SIZE}
    for key in {key for _, key, _ in made}:
        mine = [(partition, int.from_bytes(payload[:8])) for partition, other, payload in made if other == key]
        assert len({partition for partition, _ in mine}) == 1
        assert [number for _, number in mine] == [0, 1, 2, 3]
    assert Counter(partition for partition, _, _ in made) == dict.fromkeys(range(4), 12)


def test_shares_are_even_when_all_is_held_by_all_within_one() -> None:
    assert settle.even(Counter(a=3, b=4), 7, 2)
    assert not settle.even(Counter(a=3, b=3), 7, 2)
    assert not settle.even(Counter(a=2, b=5), 7, 2)
    assert not settle.even(Counter(a=7, b=0), 7, 2)


def test_a_takeover_ends_with_the_last_of_the_partitions() -> None:
    told = [Led("a", 0, 5), Led("b", 1, 20), Led("b", 0, 30), Led("b", 0, 90), Led("b", 2, 15)]
    assert claims.first_led(told, {0, 1}, 10) == {0: 30, 1: 20}


@pytest.mark.parametrize(("each", "takes"), [(1, 0.0), (10, 0.0), (10, 0.9)])
def test_all_records_of_a_replay_count_and_positions_rise(each: int, takes: float) -> None:
    entries = replay.log_of(3000, each=each, takes=takes)
    replay.fold(entries)
    reader = Reader("bench")
    reader.attach(0, 0)
    reader.feed(entries)
    moved = [max(seat.mark, seat.taken) for seat in reader.world.seats.values()]
    assert len(moved) == replay.PARTITIONS
    assert sum(position > 0 for position in moved) > replay.PARTITIONS // 2


def test_a_plan_reads_as_it_was_written_and_leaves_nothing_out() -> None:
    made = plan.Plan(way="once", name="w0", group="g", topic="t", handler_ms=5.0, trace="x")
    assert msgspec.json.decode(made.encode(), type=plan.Plan) == made
    # A peer that reads it without the class finds all of it.
    assert msgspec.json.decode(made.encode()).keys() == {field.name for field in msgspec.structs.fields(plan.Plan)}


def test_a_peer_that_is_not_here_is_named_and_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Crew, "peer", None)
    assert "pyrallel" not in ways.there(plan.NAMES)
    assert [row.what for row in ways.missing()] == ["not measured: pyrallel-consumer"]
    monkeypatch.setattr(Crew, "peer", "/usr/bin/python3.12")
    assert list(ways.missing()) == []


def test_marshals_log_is_read_whole() -> None:
    log = replay.marshal_log(500)
    assert len(log) == 500
    assert {payload.split(b"/")[0] for payload in log} <= {b"Heartbeat", b"ClaimingPartition", b"ReleasingPartition"}
    replay.naive(log)


def test_a_case_that_comes_to_nothing_is_a_row_and_keeps_nothing_else_from_being_measured() -> None:
    def rows() -> Iterator[Row]:
        yield Row("first", "1 ms")
        raise TimeoutError("not settled after 300 s")

    first, last = told("settle", rows())
    assert first.what == "first"
    assert (last.figures, last.met) == ("not settled after 300 s", False)


def test_a_run_of_some_cases_leaves_what_others_have_brought(tmp_path: Path) -> None:
    page = tmp_path / "bench.md"
    page.write_text(f"before\n{kept.BEGIN}\nNothing yet.\n{kept.END}\nafter\n")
    write(page, {"settle": [Row("until settled", "3 s")], "left-out": []}, "this machine")
    write(page, {"claims": [Row("a claim", "4 ms")]}, "this machine, later")
    write(page, {"settle": [Row("until settled", "2 s")]}, "another machine")
    text = page.read_text()
    assert list(kept.parts(text)) == ["claims", "settle"], "in the order in which they are measured"
    assert text.index("this machine, later") < text.index("a claim | 4 ms") < text.index("until settled | 2 s")
    assert "3 s" not in text
    assert "Nothing yet" not in text
    assert text.startswith("before\n<")
    assert text.endswith(">\nafter\n")
    assert not (tmp_path / IMAGE).exists()


def test_throughput_by_the_size_of_batches_has_a_picture_beside_its_table(tmp_path: Path) -> None:
    rows = [
        Row(of_batch(batch, way), f"1.0 / {batch}.5 / 9.0 k records/s (n=3)") for way in BY_BATCH for batch in (100, 10)
    ]
    rows += [
        Row("1 worker: pares, partitions", "1.0 / 2.0 / 3.0 k records/s (n=3)"),
        Row(of_batch(1, "once"), "not measured"),
    ]
    lines = picture.points(rows)
    assert lines == {way: [(10, 10.5), (100, 100.5)] for way in BY_BATCH}
    page = tmp_path / "bench.md"
    page.write_text(f"{kept.BEGIN}\n{kept.END}\n")
    write(page, {"throughput": rows}, "this machine")
    assert f"]({IMAGE})" in page.read_text()
    root = ET.fromstring((tmp_path / IMAGE).read_text())
    assert len(root.findall(".//{*}polyline")) == len(BY_BATCH)
    assert {plan.NAMES[way].removeprefix("pares, ") for way in BY_BATCH} <= {
        text.text for text in root.findall(".//{*}text")
    }
    ET.fromstring(picture.picture({}))


@pytest.mark.brokers
@pytest.mark.timeout(600)
def test_a_quick_run_of_claims_and_handlers(tmp_path: Path) -> None:
    kept_at = tmp_path / "rows.json"
    only = ["--only", "claims", "--only", "handlers"]
    command = [sys.executable, "-m", "bench.consume", "--quick", *only, "--json", str(kept_at)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580)
    assert ended.returncode == 0, ended.stderr
    rows = {row["what"]: row for row in json.loads(kept_at.read_text())["rows"]}
    assert not [what for what in rows if "not measured further" in what]
    assert any("order" in what or "keys" in what for what in rows)

"""The commands that only look: watch, history, roles and doctor, on logs of which every record is known."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cli_log import BASE, HandLog, pares

from pares import Member
from pares.core.wire import records as r
from pares.ledger import open as open_ledger

PATIENCE = 30.0


@pytest.fixture
def log(tmp_path: Path) -> HandLog:
    """ann led `feed`, handed it to bob, who fell silent; cyd leads it now. `idle` has nobody."""
    log = HandLog(tmp_path / "work.db")
    for name in ("ann", "bob", "cyd"):
        log.join(name)
    log.role("feed")
    token = log.claim("ann", "feed")
    log.transfer("ann", "feed", token, "bob", "balance")
    log.claim("cyd", "feed", over="bob")
    log.role("idle", seats=2)
    return log


def test_history_tells_every_move_with_its_reason_newest_last(log: HandLog) -> None:
    found = pares("history", "--ledger", log.url, "--json")
    assert found.code == 0, found.err
    moves = found.json["moves"]
    assert [(m["role"], m["from"], m["to"], m["cause"]) for m in moves] == [
        ("feed", None, "ann", "first"),
        ("feed", "ann", "bob", "handover"),
        ("feed", "bob", "cyd", "silent"),
    ]
    assert moves[1]["why"] == "balance"
    assert [m["token"] for m in moves] == sorted(m["token"] for m in moves)
    text = pares("history", "--ledger", log.url)
    assert text.code == 0
    assert "ann handed it over: balance" in text.out
    assert "bob was silent for its whole session" in text.out


def test_history_tells_a_release_and_the_claim_after_it_as_one_move(log: HandLog) -> None:
    token = BASE + log.last["cyd~1"]
    log.release("cyd", "feed", token, "stepped down")
    freed = pares("history", "--ledger", log.url, "--json").json["moves"][-1]
    assert (freed["from"], freed["to"], freed["cause"], freed["why"]) == ("cyd", None, "released", "stepped down")
    log.claim("ann", "feed")
    moves = pares("history", "--ledger", log.url, "--json").json["moves"]
    assert len(moves) == 4
    assert (moves[-1]["from"], moves[-1]["to"], moves[-1]["why"]) == ("cyd", "ann", "stepped down")


def test_history_limit_and_role(log: HandLog) -> None:
    newest = pares("history", "--ledger", log.url, "--limit", "1", "--json").json
    assert [m["to"] for m in newest["moves"]] == ["cyd"]
    assert newest["left_off"] == 2
    assert pares("history", "--ledger", log.url, "--role", "idle", "--json").json["moves"] == []
    wrong = pares("history", "--ledger", log.url, "--role", "nope")
    assert wrong.code == 2
    assert "no role 'nope'" in wrong.one_line
    assert "feed" in wrong.one_line


def test_watch_once_shows_leaders_members_and_moves(log: HandLog) -> None:
    now = pares("watch", "--ledger", log.url, "--json").json
    seats = {(row["role"], row["seat"]): row for row in now["roles"]}
    assert seats["feed", 0]["leader"] == "cyd"
    assert seats["feed", 0]["token"] == BASE + log.last["cyd~1"]
    assert seats["idle", 0]["leader"] is None
    assert len(seats) == 3
    assert {m["name"]: m["seats"] for m in now["members"]} == {"ann": 0, "bob": 0, "chief": 0, "cyd": 1}
    assert [m["administrator"] for m in now["members"]] == [False, False, True, False]
    text = pares("watch", "--once", "--ledger", log.url)
    assert text.code == 0
    assert "nobody" in text.out
    assert "cyd~1" in text.out


def test_watch_shows_pauses_and_silence(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "w.db", session=20, due=5)
    log.join("ann")
    log.role("feed")
    log.claim("ann", "feed")
    log.put(r.Pause, "chief", ms=600_000, scope="feed")
    now = pares("watch", "--ledger", log.url, "--json").json
    assert now["roles"][0]["paused"] is True
    assert now["pauses"][0]["role"] == "feed"
    assert 500 < now["pauses"][0]["left"] <= 600
    # The command takes longer to start than the session and the due time of a member that writes no more.
    assert {m["name"]: m["health"] for m in now["members"]}["ann"] in ("overdue", "silent")
    assert "paused: role feed" in pares("watch", "--once", "--ledger", log.url).out


def test_roles_lists_seats(log: HandLog) -> None:
    rows = pares("roles", "--ledger", log.url, "--json").json["roles"]
    assert [(row["role"], row["seat"], row["leader"]) for row in rows] == [
        ("feed", 0, "cyd"),
        ("idle", 0, None),
        ("idle", 1, None),
    ]
    assert pares("roles", "list", "--ledger", log.url, "--json").json["roles"][0]["leader"] == "cyd"
    assert pares("roles", "--ledger", log.url, "list", "--json").json["roles"][0]["leader"] == "cyd"
    assert "idle [1]" in pares("roles", "list", "--ledger", log.url).out


def test_the_environment_names_ledger_and_group(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "e.db", group="pricing")
    log.role("feed")
    env = {"PARES_LEDGER": log.url, "PARES_GROUP": "pricing"}
    assert pares("roles", "--json", env=env).json["roles"][0]["role"] == "feed"
    missing = pares("roles", env={"PARES_LEDGER": log.url})
    assert missing.code == 2
    assert "groups in it: pricing" in missing.one_line


def test_looking_needs_no_permission_to_write_and_writes_nothing(log: HandLog) -> None:
    log.ledger.close()
    before = log.path.read_bytes()
    for command in ("watch", "history", "roles", "doctor"):
        assert pares(command, "--ledger", log.url, "--json").code in (0, 1)
    assert log.path.read_bytes() == before


# doctor ------------------------------------------------------------------------------------------------------------------


def levels(document: dict[str, object], check: str) -> list[str]:
    findings = document["findings"]
    assert isinstance(findings, list)
    return [finding["level"] for finding in findings if finding["check"] == check]  # pyright: ignore


def test_doctor_finds_a_sound_group_sound(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "d.db", session=60_000, due=60_000)  # or two commands on a loaded machine find it overdue
    log.join("ann")
    log.role("feed")
    log.claim("ann", "feed")
    found = pares("doctor", "--ledger", log.url, "--json")
    assert found.code == 0, found.out
    assert found.json["sound"] is True
    assert not {f["level"] for f in found.json["findings"]} & {"problem", "warning"}
    text = pares("doctor", "--ledger", log.url)
    assert text.code == 0
    assert "every record can be read" in text.out
    assert (
        text.out.splitlines()[-1] == f"verdict: {found.json['verdict']}" == "verdict: sound: no problem and no warning"
    )


def test_doctor_on_a_group_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    """And says nothing else of it: not that it has no members, and no version."""
    log = HandLog(tmp_path / "d.db", session=60_000, group="pricing")
    log.join("ann")
    found = pares("doctor", "--ledger", log.url, "--group", "pricnig")
    assert found.code == 1
    assert "there is no group 'pricnig' in it. Groups in it: pricing (3 records). Choose one by --group" in found.out
    assert found.out.splitlines()[-1] == "verdict: 1 problem: see to it first"
    assert "written 0" not in found.out
    document = pares("doctor", "--ledger", log.url, "--group", "pricnig", "--json").json
    assert {finding["check"] for finding in document["findings"]} <= {"log", "ledger", "records", "locks"}
    assert (document["sound"], document["verdict"]) == (False, "1 problem: see to it first")


def test_doctor_on_an_empty_log(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/e.db"
    open_ledger(url).close()
    found = pares("doctor", "--ledger", url)
    assert found.code == 1
    assert "there is no group 'default' in it. It has no records of any group: look at --ledger" in found.out
    assert found.out.splitlines()[-1] == "verdict: 1 problem: see to it first"


def test_people_see_short_tokens_and_programs_whole_ones(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "t.db")
    log.join("ann")
    log.role("feed")
    token = log.claim("ann", "feed")
    for command in ("watch", "history", "roles"):
        shown = pares(command, "--ledger", log.url).out
        assert f"...{token % 10**6:06d}" in shown
        assert str(token) not in shown
        assert str(token) in pares(command, "--ledger", log.url, "--json").out


def test_doctor_has_nothing_against_a_group_that_is_not_running(tmp_path: Path) -> None:
    """As `pares run` leaves it when its command has ended; but where somebody runs, each role is to be led."""
    log = HandLog(tmp_path / "d.db", session=60_000)
    log.join("ann")
    log.role("feed")
    log.claim("ann", "feed")
    log.put(r.Leave, "ann")
    found = pares("doctor", "--ledger", log.url, "--json")
    assert found.code == 0, found.out
    assert levels(found.json, "seats") == ["note"]
    assert "seats by the log: feed 1. A member's seats= counts for roles that are new" in str(found.json["findings"])
    log.join("bob", eligible=["other"])
    found = pares("doctor", "--ledger", log.url, "--json")
    assert found.code == 1, found.out
    assert "problem" in levels(found.json, "seats")


def test_doctor_counts_garbage_by_reason_and_no_reader_stops(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "d.db", session=60_000)
    log.join("ann")
    log.role("feed")
    for payload in (
        b"",
        b"\xff\xfe garbage",
        b"[" * 5000,
        b'{"v":1,"k":"beat","g":"default","m":"ann~1","n":1e400,"b":5000000,"s":250}',
        b'{"v":1,"k":"beat","g":"default","m":"ann~1","n":99999999999999999999,"b":5000000,"s":250}',
        b'{"v":1,"k":"join","g":"default","m":"x~1","n":1,"b":5000000,"s":250,"name":"x","session":3600000}',
        b'{"v":1,"k":"claim","g":"default","m":"ann~1","n":9,"b":5000000,"s":250,"seat":"feed"}',
        b'{"v":1,"k":"x' + b"y" * 70_000 + b'"}',
    ):
        log.raw(payload)
    log.claim("ann", "feed")
    found = pares("doctor", "--ledger", log.url, "--json")
    assert sum(found.json["bad"].values()) == 8
    assert {sample["reason"].partition(":")[0] for sample in found.json["bad_samples"]} == set(found.json["bad"])
    assert "warning" in levels(found.json, "records")
    assert found.code == 0, "bad records are a warning: they count for nobody"
    now = pares("watch", "--ledger", log.url, "--json").json
    assert now["roles"][0]["leader"] == "ann", "what stood after the garbage was read"
    shown = pares("doctor", "--ledger", log.url)
    assert shown.code == 0
    assert "can't be read" in shown.out


def test_doctor_sees_through_a_flood_of_unknown_kinds(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "d.db", session=60_000)
    log.join("ann")
    log.role("feed")
    flood = [
        b'{"v":1,"k":"k%d","g":"default","m":"ghost~1","n":%d,"b":5000000,"s":250}' % (n, n) for n in range(1, 20_001)
    ]
    for at in range(0, len(flood), 10_000):
        log.ledger.append_many(flood[at : at + 10_000])
    log.claim("ann", "feed")
    found = pares("doctor", "--ledger", log.url, "--json").json
    assert found["uncounted"] == 20_000
    assert len(found["kinds"]) < 2000
    assert pares("watch", "--ledger", log.url, "--json").json["roles"][0]["leader"] == "ann"


def test_doctor_reports_silence_names_versions_and_settings(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "d.db", session=20, due=5, options="?retention=0.1&synchronous=normal")
    log.join("ann", drift=0.0)
    log.role("feed")
    log.claim("ann", "feed")
    for n in (1, 2):
        join = r.Join(
            v=1, g="default", m=f"bob~{n}", n=1, b=BASE, s=60_000, name="bob", session=60_000, overlap=500, reads=n
        )
        log.raw(r.encode(join))
    found = pares("doctor", "--ledger", log.url, "--json")
    assert found.code == 1
    assert levels(found.json, "members")[0] == "problem", "ann is silent and holds feed"
    assert levels(found.json, "names") == ["problem"]
    assert levels(found.json, "retention") == ["problem"]
    assert "note" in levels(found.json, "versions")
    texts = " ".join(f["text"] for f in found.json["findings"] if f["check"] == "settings")
    for word in ("drift 0", "session of 20 ms", "overlap", "synchronous=normal"):
        assert word in texts


def test_doctor_compares_what_members_asked_for(tmp_path: Path) -> None:
    """Real members, one of a release that asks for two seats where the log has one."""
    url = f"sqlite:///{tmp_path}/log.db"
    doctor = ("doctor", "--ledger", url, "--group", "g", "--json")
    with Member(url, group="g", roles=["feed"], name="old", session=5.0) as old:
        assert old.wait("feed", PATIENCE)
        with Member(url, group="g", roles=["feed"], name="new", seats=2, session=8.0, drift=0.2) as new:
            end = time.monotonic() + PATIENCE
            while not (found := pares(*doctor)).json["kinds"].get("asked"):
                assert time.monotonic() < end
            (said,) = [f["text"] for f in found.json["findings"] if (f["check"], f["level"]) == ("roles", "warning")]
            assert said.startswith(f"{new.id} was made with seats=2 for role 'feed', which has 1 by the log")
            assert said.endswith("pares roles add feed --seats 2")
            notes = [f["text"] for f in found.json["findings"] if (f["check"], f["level"]) == ("settings", "note")]
            assert (
                f"members were made with different sessions: 5 s ({old.id}); 8 s ({new.id}). Each goes by its own"
                in notes
            )
            assert (
                f"members were made with different drift: 0.1 ({old.id}); 0.2 ({new.id}). Each goes by its own" in notes
            )
            assert pares("roles", "add", "feed", "--seats", "2", "--ledger", url, "--group", "g").code == 0
            assert levels(pares(*doctor).json, "roles") == ["note"], "the log has what the new release asks for"
            assert new.wait("feed", PATIENCE)


def test_doctor_says_that_a_newer_format_needs_an_upgrade(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "d.db", session=60_000)
    log.put(r.Leave, "chief")
    join = (
        b'{"v":9,"k":"join","g":"default","m":"new~1","n":1,"b":5000000,"s":250,"name":"new","session":1000,"reads":9}'
    )
    log.raw(join)
    found = pares("doctor", "--ledger", log.url, "--json")
    findings = [f for f in found.json["findings"] if f["check"] == "versions"]
    assert findings[0]["level"] in ("problem", "warning")
    assert "9" in findings[0]["text"]


def test_doctor_and_watch_on_a_log_whose_beginning_is_gone(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "d.db")
    log.join("ann")
    log.role("feed")
    for _ in range(5):
        log.put(r.Beat, "ann")
    log.ledger.trim(4)
    found = pares("doctor", "--ledger", log.url, "--json")
    assert found.code == 1
    assert levels(found.json, "log")[:2] == ["note", "problem"]
    now = pares("watch", "--ledger", log.url, "--json")
    assert now.code == 0
    assert now.json["known"] is False
    refused = pares("handover", "feed", "--ledger", log.url)
    assert refused.code == 1
    assert "no snapshot" in refused.one_line

"""Witnesses of real processes (R22): what is killed is led elsewhere at once, and what lives is left in peace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from runtime_tools import PATIENCE, QUICK, until

import pares
from pares.core.errors import CapabilityError, ConfigError
from pares.runtime.claims import witness_process
from pares.runtime.claims.witness_process import Election, serve
from pares.runtime.death.lock import DeathLock, anybody
from standstill import stop_between_writes

pytestmark = pytest.mark.processes

LONG = 60.0
"""A session that is over only when the test has failed: what is led again before was proven."""
MEMBER = """
import sys, time
import pares
url, name, session, folder, witness = sys.argv[1:]
me = pares.Member(url, group="g", roles=["A"], name=name, session=float(session), lock_folder=folder, witness=witness == "yes")
while me.state == "joining": time.sleep(0.005)
print(me.id, flush=True)
term = me.wait("A")
print(term.token, flush=True)
time.sleep(600)
"""


class Process:
    """A member of its own process; its lock is in `folder`."""

    def __init__(self, url: str, name: str, folder: Path, session: float = LONG, *, witness: bool = False) -> None:
        words = [url, name, str(session), str(folder), "yes" if witness else "no"]
        self.process = subprocess.Popen([sys.executable, "-c", MEMBER, *words], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.lines = self.process.stdout
        self.id = self.lines.readline().strip()

    def leads(self) -> int:
        """The token, when it leads."""
        return int(self.lines.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Hosts:
    """Two hosts, as far as proof of death goes: members of the one can't see the locks of the other."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "work.db"
        self.url = f"sqlite:///{self.file}"
        self.here, self.there = folder / "here", folder / "there"
        self.processes: list[Process] = []
        self.others: list[subprocess.Popen[str]] = []

    def member(self, name: str, *, here: bool = True, session: float = LONG, witness: bool = False) -> Process:
        made = Process(self.url, name, self.here if here else self.there, session, witness=witness)
        self.processes.append(made)
        return made

    def witness(self) -> pares.Witness:
        return pares.Witness(self.url, group="g", lock_folder=self.here)

    def command(self, *more: str) -> subprocess.Popen[str]:
        """`pares witness`."""
        own = ["witness", "--ledger", self.url, "--group", "g", "--lock-folder", str(self.here), "--json", *more]
        made = subprocess.Popen([sys.executable, "-m", "pares", *own], stderr=subprocess.PIPE, text=True)
        self.others.append(made)
        return made

    def close(self) -> None:
        for process in (*(p.process for p in self.processes), *self.others):
            process.kill()
            process.communicate()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(tmp_path)
    yield made
    made.close()


def watches(witness: pares.Witness, *members: str) -> None:
    until(lambda: set(witness.health().watched) == set(members), f"it watches {members}")


def heard(command: subprocess.Popen[str], event: str) -> dict[str, object]:
    """The next line of that event."""
    assert command.stderr is not None
    while (text := command.stderr.readline()) != "":
        if (line := json.loads(text))["event"] == event:
            return line
    raise AssertionError(f"it ended without saying {event!r}")


def test_who_is_killed_is_succeeded_on_another_host_at_once(hosts: Hosts) -> None:
    a = hosts.member("a")
    token = a.leads()
    b = hosts.member("b", here=False)
    with hosts.witness() as witness:
        watches(witness, a.id)
        a.kill()
        assert b.leads() > token
        assert witness.health().deaths == 1
        until(lambda: not list(hosts.here.glob("*.alive")), "the lock file of the dead is removed")


def test_who_was_killed_before_the_witness_came_is_found(hosts: Hosts) -> None:
    a = hosts.member("a")
    a.leads()
    b = hosts.member("b", here=False)
    a.kill()
    with hosts.witness():
        assert b.leads()


def test_who_stands_still_is_not_dead(hosts: Hosts) -> None:
    a = hosts.member("a")
    a.leads()
    hosts.member("b", here=False)
    with hosts.witness() as witness, pares.Observer(hosts.url, group="g") as observer:
        watches(witness, a.id)
        stop_between_writes(a.process, hosts.file)
        with hosts.witness() as another:  # which has not seen it before
            watches(another, a.id)
        until(lambda: witness.health().groups["g"].beats > 0, "the witness has had all the time that it needs")
        leader = observer.leader("A")
        assert leader is not None
        assert leader.member == a.id
        assert witness.health().deaths == 0


def test_any_number_of_witnesses_do_no_harm(hosts: Hosts) -> None:
    a = hosts.member("a")
    a.leads()
    b = hosts.member("b", here=False)
    with hosts.witness() as one, hosts.witness() as two, hosts.witness() as three:
        for witness in (one, two, three):
            watches(witness, a.id)
        a.kill()
        token = b.leads()
        for witness in (one, two, three):
            until(lambda witness=witness: witness.health().deaths == 1, "each has seen it")
            watches(witness)
        with pares.Observer(hosts.url, group="g") as observer:
            leader = observer.leader("A")
            assert leader is not None
            assert (leader.member, leader.token) == (b.id, token), "later obituaries have changed nothing"


def test_a_restart_under_the_same_name_is_another_life(hosts: Hosts) -> None:
    """The witness stands still while its member dies and comes back: the obituary that it then writes is of the first one."""
    a = hosts.member("a")
    a.leads()
    witness = hosts.command()
    assert heard(witness, "watching")["watched"] == [a.id]
    stop_between_writes(witness, hosts.file)
    a.kill()
    again = hosts.member("a")
    token = again.leads()
    os.kill(witness.pid, signal.SIGCONT)
    assert heard(witness, "watching")["watched"] == [again.id]
    with pares.Observer(hosts.url, group="g") as observer:
        leader = observer.leader("A")
        assert leader is not None
        assert (leader.member, leader.token) == (again.id, token)


def test_a_witness_that_was_killed_changes_no_promise(hosts: Hosts) -> None:
    a = hosts.member("a", session=QUICK)
    a.leads()
    witness = hosts.command()
    heard(witness, "watching")
    b = hosts.member("b", here=False, session=QUICK)
    witness.kill()
    a.kill()
    assert b.leads(), "by silence"


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_lock_file_that_was_tampered_with_proves_nothing(hosts: Hosts, how: str) -> None:
    a = hosts.member("a", session=QUICK)
    a.leads()
    with hosts.witness() as witness:
        watches(witness, a.id)
        path = next(hosts.here.glob("*.alive"))
        text = path.read_bytes()
        path.unlink()
        if how == "replaced":
            path.write_bytes(text)
        b = hosts.member("b", here=False, session=QUICK)
        a.kill()
        assert b.leads(), "by silence"
        assert witness.health().deaths == 0


def test_whose_lock_it_can_not_see_is_said(hosts: Hosts) -> None:
    a = hosts.member("a")
    b = hosts.member("b", here=False)
    with hosts.witness() as witness:
        watches(witness, a.id)
        until(lambda: witness.health().unseen == (b.id,), "the other's lock is somewhere else")
        assert witness.health().ready
        assert a.id in repr(witness) or "1 watched" in repr(witness)


def test_a_witness_leads_nothing_and_is_no_member_to_others(hosts: Hosts) -> None:
    with hosts.witness() as witness, pares.Member(hosts.url, group="g", roles=["A"], session=LONG) as me:
        assert me.wait("A", PATIENCE)
        until(lambda: witness.health().ready, "it is in its group")
        assert [peer.id for peer in me.members()] == [me.id]
        me.step_down("A")
        assert me.wait("A", PATIENCE), "nobody else could lead"


def test_several_groups_and_their_deaths(hosts: Hosts, tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    with pares.Witness(
        hosts.url, group=["g", "h"], lock_folder=hosts.here, on_death=lambda *d: told.append(d)
    ) as witness:
        assert witness.groups == ("g", "h")
        a = hosts.member("a")
        watches(witness, a.id)
        a.kill()
        until(lambda: told == [("g", a.id)], "the death is told")
        assert set(witness.health().groups) == {"g", "h"}
    assert not witness.health().ready
    witness.close()


def test_the_command_says_what_it_sees_and_ends_when_it_is_told_to(hosts: Hosts) -> None:
    a = hosts.member("a")
    a.leads()
    witness = hosts.command("--group", "h")
    assert heard(witness, "ready")["groups"] == ["g", "h"]
    assert heard(witness, "watching")["watched"] == [a.id]
    a.kill()
    assert heard(witness, "dead")["member"] == a.id
    witness.terminate()
    assert heard(witness, "ended")["deaths"] == 1
    assert witness.wait(PATIENCE) == 0


def test_systemd_is_told_when_it_is_ready(hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "notify"))
        end.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        hosts.member("a").leads()
        witness = hosts.command()
        assert end.recv(100) == b"READY=1"
        witness.terminate()
        assert end.recv(100) == b"STOPPING=1"
        assert witness.wait(PATIENCE) == 0


# What may be one, and where ------------------------------------------------------------------------------------------


def test_where_no_lock_proves_anything_there_is_no_witness(
    tmp_path: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pares.ledger.local import mounts as mounts_of_host

    with pytest.raises(CapabilityError, match="lock_folder="):
        pares.Witness(memory, group="g")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {tmp_path}/far rw - nfs4 server:/x rw\n")
    monkeypatch.setattr(mounts_of_host, "MOUNTINFO", mounts)
    with pytest.raises(CapabilityError, match="local"):
        pares.Witness(memory, group="g", lock_folder=tmp_path / "far")


def test_wrong_groups_are_refused(memory: str, tmp_path: Path) -> None:
    for wrong in ([], "", ["g", ""]):
        with pytest.raises(ConfigError):
            pares.Witness(memory, group=wrong, lock_folder=tmp_path)


def test_a_group_of_neli_is_named_by_its_assignment(memory: str, tmp_path: Path) -> None:
    with pares.Member(memory, group="n", roles=["A"], protocol="fast-neli", lock_folder=tmp_path) as me:
        assert me.wait("A", PATIENCE)
        with pytest.raises(CapabilityError, match="'n/partitions'"):
            pares.Witness(memory, group="n", lock_folder=tmp_path)
        with pares.Witness(memory, group="n/partitions", lock_folder=tmp_path) as witness:
            until(lambda: len(witness.health().watched) == 1, "the member of the assignment is watched")


def test_where_no_death_is_proven_members_have_no_witness(memory: str) -> None:
    with pytest.raises(ConfigError, match="witness is True"):
        pares.Member(memory, group="g", roles=["A"], protocol="allcall", witness=True)


# The one that a member starts ----------------------------------------------------------------------------------------


def test_a_member_starts_one_that_outlives_it(hosts: Hosts) -> None:
    a = hosts.member("a", witness=True)
    a.leads()
    second = hosts.member("c", witness=True)
    b = hosts.member("b", here=False)
    until(lambda: list(hosts.here.glob("*.witness")), "it has begun")
    with pares.Observer(hosts.url, group="g") as observer:
        until(lambda: sum(m.administrator for m in observer.world.members.values()) == 1, "it is in the group")
        second.kill()
        a.kill()
        assert b.leads()
        assert sum(m.administrator for m in observer.world.members.values()) == 1, "one is enough"
    # It ends by itself, as nobody is left in its folder.
    until(lambda: not list(hosts.here.glob("*.witness")), "it ends", within=2 * PATIENCE)


def test_the_one_that_serves_ends_when_nobody_is_left(
    tmp_path: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    won, win = threading.Event(), Election.win

    def wins(election: Election) -> bool:
        if win(election):
            won.set()
            return True
        return False

    monkeypatch.setattr(Election, "win", wins)
    folder = tmp_path / "locks"
    lock = DeathLock.take(folder, "a~1")
    settings = {"ledger": memory, "options": None, "group": "g", "lock_folder": str(folder)}
    thread = threading.Thread(target=lambda: serve({**settings}, 0.02))
    thread.start()
    assert won.wait(PATIENCE)  # before anybody else asks, who would win
    other = Election(folder, memory, "g")
    until(lambda: not other.win() and anybody(folder), "it serves")
    serve({**settings}, 0.02)  # another one ends at once
    assert thread.is_alive()
    lock.release()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert other.win(), "the next one may serve"
    other.resign()
    assert list(folder.iterdir()) == []


def test_one_of_several_is_elected(tmp_path: Path) -> None:
    one, two, elsewhere = (Election(tmp_path, "url", group) for group in ("g", "g", "h"))
    assert one.win()
    assert one.win()
    assert not two.win()
    assert elsewhere.win(), "of another group"
    one.path.unlink()
    assert two.win(), "a cleaner has removed the file: two of them do no harm"
    for each in (one, two, elsewhere):
        each.resign()
    assert list(tmp_path.iterdir()) == []


def test_a_member_that_takes_its_lock_while_the_witness_ends_is_not_left_alone(
    tmp_path: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It resigns, and looks once more: a member that has come meanwhile may have found it elected, and started no other."""
    came: list[DeathLock] = []
    looks: list[bool] = []

    def resigned(election: Election) -> None:
        resign(election)
        if not came:
            came.append(DeathLock.take(tmp_path, "late~1"))

    def look(folder: Path) -> bool:
        looks.append(anybody(folder))
        if len(looks) > 6:
            came[0].release()
        return looks[-1]

    resign = Election.resign
    monkeypatch.setattr(Election, "resign", resigned)
    monkeypatch.setattr(witness_process, "anybody", look)
    serve({"ledger": memory, "options": None, "group": "g", "lock_folder": str(tmp_path)}, 0.01)
    assert looks[:3] == [False, False, True], "nobody; nobody again; and somebody after it has resigned"
    assert len(looks) > 6, "so it went on"

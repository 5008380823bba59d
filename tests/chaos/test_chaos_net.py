"""The network of a chaos run: what is cut is cut, in that direction only, and nothing of it is left behind."""

from __future__ import annotations

import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.net import Net

from chaos import net as chaos_net
from pares.core.errors import CapabilityError

HANG = 60.0
ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.processes


def rights() -> str:
    try:
        chaos_net.require_rights()
    except CapabilityError as error:
        return str(error)
    return ""


@pytest.fixture
def net() -> Iterator[Net]:
    if missing := rights():
        pytest.skip(missing)
    net = Net()
    try:
        net.open()
        for node in ("b1", "b2", "m1"):
            net.add(node)
        yield net
    finally:
        while OPENED:
            OPENED.pop().close()
        net.close()


OPENED: list[socket.socket] = []


class Post:
    """Sends to the other nodes' posts, and keeps what arrives."""

    def __init__(self, net: Net, node: str) -> None:
        self.net, self.node = net, node
        made: list[socket.socket] = []

        def make() -> None:
            net.enter(node)
            made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))

        thread = threading.Thread(target=make)  # a thread of its own: it stays in that network
        thread.start()
        thread.join()
        (self.socket,) = made
        OPENED.append(self.socket)
        self.socket.bind((net.address(node), 4000))

    def send(self, to: str, text: str) -> None:
        self.socket.sendto(text.encode(), (self.net.address(to), 4000))

    def got(self, timeout: float) -> str | None:
        self.socket.settimeout(timeout)
        try:
            return self.socket.recv(100).decode()
        except TimeoutError:
            return None


def test_a_cut_holds_for_one_direction_and_for_nobody_else(net: Net) -> None:
    b1, b2, m1 = (Post(net, node) for node in ("b1", "b2", "m1"))
    with net.cut([("m1", "b1")]):
        m1.send("b1", "lost")
        b1.send("m1", "there")
        assert m1.got(HANG) == "there"
        m1.send("b2", "elsewhere")
        assert b2.got(HANG) == "elsewhere"
    m1.send("b1", "healed")
    assert b1.got(HANG) == "healed", "what was sent into the cut is lost, what comes after it is not"


def test_a_cut_that_ends_by_an_error_is_healed_too(net: Net) -> None:
    b1, m1 = Post(net, "b1"), Post(net, "m1")
    with pytest.raises(ZeroDivisionError), net.cut([("m1", "b1"), ("b1", "m1")]):
        _ = 1 / 0
    m1.send("b1", "healed")
    assert b1.got(HANG) == "healed"


def test_a_slow_link_is_slow_in_each_direction_and_connections_stay(net: Net) -> None:
    b1, m1 = Post(net, "b1"), Post(net, "m1")

    def round_trip() -> float:
        begin = time.monotonic()
        m1.send("b1", "ping")
        assert b1.got(HANG) == "ping"
        b1.send("m1", "pong")
        assert m1.got(HANG) == "pong"
        return time.monotonic() - begin

    before = statistics.median(round_trip() for _ in range(5))
    with net.slow("m1", delay_ms=30, jitter_ms=5, loss=0.0, seed=1):
        assert min(round_trip() for _ in range(5)) >= 0.050
    after = statistics.median(round_trip() for _ in range(5))
    assert max(before, after) < 0.050, "only while it lasts"


def test_a_lossy_link_loses_about_the_part_that_was_asked_for(net: Net) -> None:
    b1, m1 = Post(net, "b1"), Post(net, "m1")
    with net.slow("m1", delay_ms=0, jitter_ms=0, loss=0.3, seed=7):
        for number in range(200):
            m1.send("b1", str(number))
        arrived = 0
        while b1.got(0.5) is not None:
            arrived += 1
    assert 100 <= arrived <= 180


def test_nothing_is_left(net: Net) -> None:
    names = [net.name(node) for node in ("hub", "b1", "b2", "m1")]
    there = chaos_net.ip("netns", "list")
    assert all(name in there for name in names)
    net.close()
    assert not any(name in chaos_net.ip("netns", "list") for name in names)


def test_what_a_killed_run_has_left_goes_with_the_next_one(net: Net, tmp_path: Path) -> None:
    lines = [
        f"import sys; sys.path.insert(0, {str(Path(chaos_net.__file__).parents[1])!r})",
        "from chaos.net import Net, mount_memory; from pathlib import Path",
        f"net = Net(); net.open(); mount_memory(Path({str(tmp_path / 'small')!r}), 4)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    ]
    killed = subprocess.Popen([sys.executable, "-c", "\n".join(lines)])
    killed.wait()
    left = f"pares-chaos-{killed.pid}-hub"
    assert left in chaos_net.ip("netns", "list")
    assert str(tmp_path / "small") in Path("/proc/mounts").read_text()
    chaos_net.sweep()
    assert left not in chaos_net.ip("netns", "list")
    assert str(tmp_path / "small") not in Path("/proc/mounts").read_text()
    assert net.name("hub") in chaos_net.ip("netns", "list"), "not what belongs to a run that lives"


def test_without_the_rights_a_run_says_what_is_missing() -> None:
    prefix: list[str] = []
    if not rights():
        if shutil.which("setpriv") is None:
            pytest.skip("this process has all rights, and there is no setpriv to give one up")
        prefix = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"]
    command = [*prefix, sys.executable, "-m", "chaos", "--faults", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "missing the right CAP_NET_ADMIN" in done.stdout
    assert "--cap-add NET_ADMIN" in done.stdout

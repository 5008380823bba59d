"""A network of the run's own: a network namespace for each node, all joined by one that routes, and ways to break it.

    b1 --veth-- hub --veth-- m1        node i has 198.18.i.2 (a range set aside for measuring devices: nobody's network)

Packets between nodes are forwarded by the hub, so a cut is a rule there: "from this to that: a black hole". It holds for one
direction, drops without a word (no error to the sender, no reset, as when a cable is pulled), takes effect at once for
connections that exist, and needs nothing but the `ip` command. A slow and lossy link is a detour through a process that holds
packets back or drops them (`wire`). Neither needs netem or nft, which many kernels and containers do not have.

Names of namespaces carry the process id of the run. What a run that was killed has left is removed by the next one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pares.core.errors import CapabilityError

_PREFIX: Final = "pares-chaos-"
_FOLDER: Final = Path("/run/netns")
_CLONE_NEWNET: Final = 0x40000000
_CAP_NET_ADMIN, _CAP_SYS_ADMIN = 12, 21
_HUB: Final = "hub"


def ip(*words: str) -> str:
    """Runs `ip`; raises `CapabilityError` with what it said."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CapabilityError(f"`ip {' '.join(words)}` failed: {done.stderr.strip() or done.returncode}")
    return done.stdout


def require_rights() -> None:
    """Raises `CapabilityError`, which says all that is missing, if networks of one's own can't be made here."""
    missing: list[str] = []
    if not sys.platform.startswith("linux"):
        missing.append("Linux")
    else:
        missing += [
            f"the program {name}" for name in ("ip", "nsenter", "mount", "umount") if shutil.which(name) is None
        ]
        rights = _rights()
        names = {_CAP_NET_ADMIN: "CAP_NET_ADMIN", _CAP_SYS_ADMIN: "CAP_SYS_ADMIN"}
        missing += [f"the right {name}" for bit, name in names.items() if not rights >> bit & 1]
        if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
            missing.append("the device /dev/net/tun")
    if missing:
        raise CapabilityError(
            f"faults on real networks can't be made here: missing {', '.join(missing)}. Run it as root, or in a container with "
            "--cap-add NET_ADMIN --cap-add SYS_ADMIN --device /dev/net/tun"
        )


def _rights() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def sweep() -> None:
    """Removes what runs that were killed have left: namespaces and file systems that carry the id of a process that is gone."""
    for path in _FOLDER.glob(f"{_PREFIX}*") if _FOLDER.is_dir() else ():
        if _is_left(path.name):
            ip("netns", "del", path.name)
    for line in Path("/proc/mounts").read_text().splitlines():
        source, target = line.split()[:2]
        if _is_left(source):
            unmount(Path(target))


def _is_left(name: str) -> bool:
    pid = name.removeprefix(_PREFIX).partition("-")[0]
    return name.startswith(_PREFIX) and pid.isdigit() and not Path(f"/proc/{pid}").exists()


def mount_memory(folder: Path, megabytes: int) -> None:
    """Puts a small file system at `folder`, so that it can be filled without filling anything else."""
    folder.mkdir(parents=True, exist_ok=True)
    source = f"{_PREFIX}{os.getpid()}"
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", source, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CapabilityError(f"no file system can be put at {folder}: {done.stderr.strip()}")


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


class Net:
    """The namespaces of one run. `close` removes them."""

    def __init__(self) -> None:
        self._run = f"{_PREFIX}{os.getpid()}-"
        self._nodes: dict[str, str] = {}
        self._home: int | None = None
        self._rules: set[tuple[str, ...]] = set()

    def open(self) -> None:
        """Makes the hub. Raises `CapabilityError` if that can't be."""
        self._add(_HUB)
        # Before any device is there: they take these settings when they are made.
        settings = {"ip_forward": 1, "conf/all/rp_filter": 0, "conf/default/rp_filter": 0, "conf/all/send_redirects": 0}
        self._set(_HUB, settings)

    def add(self, node: str) -> str:
        """A namespace for a node, joined to the hub. Its address."""
        number = len(self._nodes) + 1
        address = f"198.18.{number}.2"
        self._add(node)
        self._set(node, {"conf/all/rp_filter": 0, "conf/default/rp_filter": 0})
        hub, own = self.name(_HUB), self.name(node)
        ip("-n", hub, "link", "add", node, "type", "veth", "peer", "name", "eth0", "netns", own)
        ip("-n", hub, "addr", "add", f"198.18.{number}.1/30", "dev", node)
        ip("-n", hub, "link", "set", node, "up")
        ip("-n", own, "addr", "add", f"{address}/30", "dev", "eth0")
        ip("-n", own, "link", "set", "eth0", "up")
        ip("-n", own, "route", "add", "default", "via", f"198.18.{number}.1")
        self._nodes[node] = address
        return address

    def _add(self, node: str) -> None:
        ip("netns", "add", self.name(node))
        ip("-n", self.name(node), "link", "set", "lo", "up")

    def _set(self, node: str, settings: dict[str, int]) -> None:
        script = "; ".join(f"echo {value} > /proc/sys/net/ipv4/{name}" for name, value in settings.items())
        done = subprocess.run([*self.prefix(node), "sh", "-ec", script], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CapabilityError(f"the network {self.name(node)} can't be set up: {done.stderr.strip()}")

    def name(self, node: str) -> str:
        return f"{self._run}{node}"

    def address(self, node: str) -> str:
        return self._nodes[node]

    def prefix(self, node: str) -> list[str]:
        """What goes before a command that is to run in a node's network. Everything else it shares with us."""
        return ["nsenter", f"--net={_FOLDER / self.name(node)}"]

    def enter(self, node: str) -> None:
        """This thread, and whatever it starts from now on, is in that network."""
        if self._home is None:
            self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        descriptor = os.open(_FOLDER / self.name(node), os.O_RDONLY | os.O_CLOEXEC)
        try:
            set_network(descriptor)
        finally:
            os.close(descriptor)

    # Breaking it -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def cut(self, pairs: Iterable[tuple[str, str]]) -> Iterator[None]:
        """While it lasts, nothing that the first node of a pair sends reaches the second."""
        rules = [("from", self.address(source), "to", self.address(target)) for source, target in pairs]
        try:
            for rule in rules:
                ip("-n", self.name(_HUB), "rule", "add", "pref", "100", *rule, "blackhole")
                self._rules.add(rule)
            yield
        finally:
            for rule in rules:
                if rule in self._rules:
                    ip("-n", self.name(_HUB), "rule", "del", "pref", "100", *rule, "blackhole")
                    self._rules.discard(rule)

    @contextlib.contextmanager
    def slow(self, node: str, delay_ms: float, jitter_ms: float, loss: float, seed: int) -> Iterator[None]:
        """While it lasts, all packets from and to a node take `delay_ms` longer, give or take `jitter_ms`, and of each
        direction the part `loss` (0 to 1) is lost. Connections stay."""
        script = Path(__file__).with_name("wire.py")
        ends = [str(_FOLDER / self.name(node)), str(_FOLDER / self.name(_HUB))]
        numbers = [str(value) for value in (delay_ms, jitter_ms, loss, seed)]
        command = [sys.executable, "-I", "-S", str(script), str(os.getpid()), *ends, *numbers]
        wire = subprocess.Popen(command, stdout=subprocess.PIPE)
        hub, own, address = self.name(_HUB), self.name(node), self.address(node)
        gateway = ("via", address.rpartition(".")[0] + ".1", "dev", "eth0")
        try:
            assert wire.stdout is not None
            if not wire.stdout.readline():
                raise CapabilityError(f"the slow link of {node} can't be made: /dev/net/tun refuses (see above)")
            device = f"wire{wire.pid}"[:15]
            for name in (own, hub):
                ip("-n", name, "link", "set", device, "up")
            ip("-n", hub, "route", "add", f"{address}/32", "dev", device)
            ip("-n", own, "route", "replace", "default", "dev", device, "src", address)
            yield
        finally:
            with contextlib.suppress(CapabilityError):
                ip("-n", own, "route", "replace", "default", *gateway)
            wire.kill()  # its devices go with it, and the routes through them
            wire.communicate()

    def close(self) -> None:
        """Removes all of it. What still runs there keeps its network until it ends, but nobody reaches it any more."""
        if self._home is not None:
            set_network(self._home)
            os.close(self._home)
            self._home = None
        for path in _FOLDER.glob(f"{self._run}*") if _FOLDER.is_dir() else ():
            with contextlib.suppress(CapabilityError):
                ip("netns", "del", path.name)


def set_network(descriptor: int) -> None:
    """The calling thread moves into a network. (`os.setns` came with Python 3.12.)"""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        raise CapabilityError(f"a network can't be entered: {os.strerror(ctypes.get_errno())}")

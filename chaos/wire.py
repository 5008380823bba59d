"""A slow and lossy link: takes packets at one end, and gives them out at the other later, or never. Run by path:

    python -I -S wire.py PARENT NAMESPACE_A NAMESPACE_B DELAY_MS JITTER_MS LOSS SEED

It makes a device `wirePID` in each of two network namespaces and prints a line when both are there; whatever is routed into
one comes out of the other. It ends, and the devices with it, when its parent does. A packet may overtake another one, as on
real detours; of each direction the part LOSS (0 to 1) is dropped.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import struct
import sys
import time

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_LARGEST = 65_536


def device(namespace: str, name: str) -> int:
    """A device in a namespace, which this process enters for that."""
    libc = ctypes.CDLL(None, use_errno=True)
    entered = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    if libc.setns(entered, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns", namespace)
    os.close(entered)
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return descriptor


def relay(ends: tuple[int, int], delay: float, jitter: float, loss: float, dice: random.Random) -> None:
    due: list[tuple[float, int, int, bytes]] = []
    number = 0
    while True:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else None
        ready, _, _ = select.select(ends, [], [], wait)
        for source in ready:
            try:
                packet = os.read(source, _LARGEST)
            except BlockingIOError:
                continue
            if dice.random() >= loss:
                number += 1
                at = time.monotonic() + max(0.0, dice.uniform(delay - jitter, delay + jitter))
                heapq.heappush(due, (at, number, ends[1] if source == ends[0] else ends[0], packet))
        now = time.monotonic()
        while due and due[0][0] <= now:
            _, _, target, packet = heapq.heappop(due)
            try:
                os.write(target, packet)
            except OSError:
                pass  # the device is down or its queue is full: the packet is lost, as packets are


def main() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):
        return
    name = f"wire{os.getpid()}"[:15]
    ends = device(sys.argv[2], name), device(sys.argv[3], name)
    delay, jitter, loss = (float(word) for word in sys.argv[4:7])
    print(name, flush=True)
    relay(ends, delay / 1000, jitter / 1000, loss, random.Random(int(sys.argv[7])))


if __name__ == "__main__":
    main()

"""What every process of a benchmark has in common, whatever it plays: what it tells on standard output, what it obeys on input.

Lines out: `WORD ROLE NS ...` for what happens to it (`ready`, `lead`, `lost`, `handing`; NS is the stopwatch, which all
processes of a host share), and answers to questions (`cpu`, `sent`, `watched`). Lines in, beside those of its own:

* `cpu`: `cpu SECONDS`, the processor time that it has used so far.
* `sent`: `sent SEGMENTS SENT RECEIVED`, how many TCP segments with data its connections have sent so far, and how many
  bytes they have sent and received; -1 where the system can't say.
* `watch`: from now on its belief is asked for again and again, in each of the forms in which a user would ask.
* `watched NS`: `watched FORM COUNT NS ENDED` for each form, then `watched`: how many answers to questions asked at NS or later
  were yes before the first no, when the last of them was asked, and whether there was a no at all. Ends the watching.

The end of the input ends it.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from pares.runtime.clock import stopwatch

ANSWERS: Final = frozenset({"cpu", "sent", "watched"})
"""Lines with these words go to the process that asked."""
PAUSE: Final = 0.00025
"""Seconds between one question and the next, while beliefs are watched."""
_TCP_INFO_BYTES: Final = 192
_BYTES_ACKED: Final = 120
_DATA_SEGS_OUT: Final = 156
"""Where Linux (4.6 and newer) puts in the answer to TCP_INFO: the bytes that were sent and acknowledged, with those received
behind them; and the segments with data that were sent."""

_told: Final = threading.Lock()


def tell(*words: object) -> None:
    with _told:
        sys.stdout.write(" ".join(map(str, words)) + "\n")
        sys.stdout.flush()


class Watch:
    """Asks one question over and over, in a thread of its own, as a loop does that works while it leads.

    What counts is when a question was *asked*: an answer that was on its way when the process was stopped was right when it
    was given.
    """

    def __init__(self, ask: Callable[[], bool]) -> None:
        self._ask = ask
        self._answers: list[tuple[int, bool]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._over.is_set():
            asked = stopwatch()
            try:
                yes = self._ask()
            except Exception:  # a client that can't tell: its leader can't be told apart
                yes = False
            self._answers.append((asked, yes))
            time.sleep(PAUSE)

    def end(self, since: int) -> tuple[int, int, bool]:
        """Of the questions asked since then: how many yes before the first no, the last of those, whether there was a no."""
        self._over.set()
        self._thread.join()
        return first_run(self._answers, since)


def first_run(answers: list[tuple[int, bool]], since: int) -> tuple[int, int, bool]:
    count = last = 0
    for asked, yes in answers:
        if asked < since:
            continue
        if not yes:
            return count, last, True
        count, last = count + 1, asked
    return count, last, False


class Traffic(NamedTuple):
    segments: int
    sent: int
    """Bytes, as `received`."""
    received: int


_UNKNOWN: Final = Traffic(-1, -1, -1)
_known: Final[dict[str, Traffic]] = {}
"""What each connection was last known to have carried, by the name that the system gives its socket: also of closed ones."""


def traffic() -> Traffic:
    """What this process' TCP connections have carried: segments with data (a small request is one), and bytes. What a
    connection carries between two such questions and then closes is not seen."""
    if sys.platform != "linux":
        return _UNKNOWN
    for number, name in _sockets():
        try:
            connection = socket.socket(fileno=os.dup(number))
        except OSError:
            continue  # closed meanwhile
        with connection:
            if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
                continue
            try:
                said = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
            except OSError:
                continue
            if len(said) >= _DATA_SEGS_OUT + 4:
                (segments,) = struct.unpack_from("=I", said, _DATA_SEGS_OUT)
                _known[name] = Traffic(segments, *struct.unpack_from("=QQ", said, _BYTES_ACKED))
    return Traffic(*(sum(column) for column in zip(*_known.values(), strict=True))) if _known else Traffic(0, 0, 0)


def sent() -> int:
    """TCP segments with data that this process' connections have sent; -1 where the system can't say."""
    return traffic().segments


def _sockets() -> Iterator[tuple[int, str]]:
    for entry in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{entry}")
        except OSError:
            continue  # that of the listing itself
        if name.startswith("socket:"):
            yield int(entry), name


def play(forms: Mapping[str, Callable[[], bool]], acts: Mapping[str, Callable[..., None]]) -> None:
    """Obeys until the input ends. `forms`: how a user asks whether this process leads. `acts`: what else it can be told to do,
    by the first word of a line; the other words are the arguments."""
    watches: dict[str, Watch] = {}
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "cpu":
            tell("cpu", time.process_time())
        elif word == "sent":
            tell("sent", *traffic())
        elif word == "watch":
            watches = {form: Watch(ask) for form, ask in forms.items()}
        elif word == "watched":
            for form, watch in watches.items():
                count, last, ended = watch.end(int(rest[0]))
                tell("watched", form, count, last, int(ended))
            watches = {}
            tell("watched")
        else:
            acts[word](*rest)

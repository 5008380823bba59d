"""For tests of code that uses pares, and of pares itself.

* `Stage`: members on a simulated ledger, in virtual time. Crashes, freezes and cuts happen when the test says so; a minute
  passes in milliseconds; one seed is one history, with a trace that reads like a play.
* `FakeMember`: a double for `pares.Member` whose leadership the test decides.
* `pares.testing.aio.FakeMember`: the same for asyncio, a double for `pares.aio.Member`.
* `pares.testing.plugin`: pytest fixtures `pares_stage` and `pares_member`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pares.testing.fake import FakeMember
    from pares.testing.stage import Actor, Stage

__all__ = ["Actor", "FakeMember", "Stage"]


def __getattr__(name: str) -> object:
    """Imported when used: the pytest plugin is loaded in every test run of everybody who has pares installed."""
    if name == "FakeMember":
        from pares.testing.fake import FakeMember

        return FakeMember
    if name in ("Actor", "Stage"):
        from pares.testing import stage

        return getattr(stage, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""For tests of code that uses pares.

* `Stage`: whole processes in virtual time, with real members and your own code. Crashes, freezes and cuts happen when the test
  says so; a minute passes in milliseconds; one seed is one history, with a trace that can be read.
* `FakeMember`: a double for `pares.Member` whose leadership the test decides, for a unit test.
* `pares.testing.aio.FakeMember`: the same for asyncio, a double for `pares.aio.Member`.
* `pares.testing.plugin`: pytest fixtures `pares_stage` and `pares_member`.

A stage needs the extra: pip install 'pares[testing]'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pares.testing.actor import Actor
    from pares.testing.fake import FakeMember
    from pares.testing.stage import Stage

__all__ = ["Actor", "FakeMember", "Stage"]


def __getattr__(name: str) -> object:
    """Imported when used: the pytest plugin is loaded in every test run of everybody who has pares installed."""
    if name == "FakeMember":
        from pares.testing.fake import FakeMember

        return FakeMember
    if name in ("Actor", "Stage"):
        try:
            from pares.testing import stage
        except ModuleNotFoundError as error:
            if error.name != "greenlet":
                raise
            raise ImportError(f"pares.testing.{name} needs greenlet: pip install 'pares[testing]'") from error
        return getattr(stage, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

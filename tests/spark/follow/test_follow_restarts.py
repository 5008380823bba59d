"""A follower that is killed goes on from its checkpoint: it tells nothing twice, and misses nothing."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from histories import broken
from tests.spark.follow.cuts import named, told, whole
from tests.spark.follow.growing import Growing, Run

from pares.core.errors import ConfigError, LedgerRewound
from pares.spark.facts.claims import history
from pares.spark.follow.judge import Alarm
from pares.spark.rules.base import Allowed

pytestmark = pytest.mark.timeless
ROUNDS = 12


class Killed(BaseException):
    """Stands for SIGKILL."""


@pytest.mark.parametrize("seed", range(6))
def test_a_follower_that_is_killed_again_and_again_tells_each_alarm_once(seed: int, tmp_path: Path) -> None:
    play, dice = broken(seed), random.Random(seed)
    log, shown, deaths = Growing(tmp_path / "log.db"), list[Alarm](), 0
    mortal = False

    def show(alarm: Alarm) -> None:
        nonlocal mortal
        if mortal:
            mortal = False
            raise Killed  # written down, and not shown
        shown.append(alarm)

    cuts = sorted({*(dice.randrange(len(play.entries)) for _ in range(ROUNDS)), len(play.entries)})
    low = 0
    for high in cuts:
        log.append(play.entries[low:high])
        low = high
        mortal = dice.random() < 0.5
        run = None
        try:
            run = Run(log, play.group, tmp_path / "kept", show)
            run.catch_up()
            if dice.random() < 0.5:
                run.follower.save()
        except Killed:
            deaths += 1
        finally:
            if run is not None:
                run.kill()
    mortal = False
    run = Run(log, play.group, tmp_path / "kept", show)
    run.catch_up()
    shown += run.follower.judge.alarms(1e9, last=True)
    run.kill()
    log.close()
    assert told(shown) == Counter(map(named, whole(play.group, history(play.group, play.entries), Allowed())))
    verdicts: dict[str, str | None] = {}
    for alarm in shown:
        assert alarm.before == verdicts.get(alarm.id)
        verdicts[alarm.id] = None if alarm.verdict == "none" else alarm.verdict


def test_one_follower_a_checkpoint_and_each_its_own_log(tmp_path: Path) -> None:
    play = broken(1)
    log = Growing(tmp_path / "log.db")
    log.append(play.entries)
    run = Run(log, play.group, tmp_path / "kept", None)
    with pytest.raises(ConfigError, match="another process follows a log with the checkpoint"):
        Run(log, play.group, tmp_path / "kept", None)
    run.catch_up()
    run.follower.save()
    run.kill()
    with pytest.raises(ConfigError, match="is about h0001, and not about other"):
        Run(log, "other", tmp_path / "kept", None)
    log.close()
    (tmp_path / "log.db").unlink()
    other = Growing(tmp_path / "log.db")
    other.append(play.entries)
    with pytest.raises(LedgerRewound, match="is another log now"):
        Run(other, play.group, tmp_path / "kept", None)
    other.close()

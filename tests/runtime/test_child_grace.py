"""How long a command may take to end, given a session: what fits, and what is refused with the sum."""

from __future__ import annotations

import pytest

from pares.core.errors import ConfigError
from pares.runtime.child_grace import check_grace, room_for_grace


def test_a_grace_that_does_not_fit_is_refused_with_the_sum() -> None:
    for session in (0.3, 1.0, 5.0, 10.0, 60.0):
        room = room_for_grace(session)
        assert room > session / 5 - 0.02, "the default fits"
        check_grace(room, session)
        with pytest.raises(ConfigError, match=rf"does not fit a session of {session:g} s"):
            check_grace(room + 0.001, session)
    with pytest.raises(ConfigError) as error:
        check_grace(2.0, 1.0)
    text = str(error.value)
    assert "0.816" in text
    assert "0.250" in text
    needed = float(text.split("session of ")[2].split()[0])
    check_grace(2.0, needed)
    with pytest.raises(ConfigError):
        check_grace(2.0, needed * 0.95)
    with pytest.raises(ConfigError, match="no grace fits it, so take a session of"):
        check_grace(0.0, 0.02)
    for grace in (-1, float("nan")):
        with pytest.raises(ConfigError, match="0 or more"):
            check_grace(grace, 1)
    for session in (0.0, 0.01, 61.0, float("inf"), float("nan")):
        with pytest.raises(ConfigError, match=r"give 0\.02 to 60 s"):
            check_grace(0.0, session)
    with pytest.raises(ConfigError, match=r"less$"):
        check_grace(100, 60)

"""How long a command may take to end, given a session: what fits, and what is refused with the sum."""

from __future__ import annotations

import pytest

import pares
from pares.core.errors import CapabilityError, ConfigError
from pares.runtime.config.protocols import PROTOCOLS, ProtocolName
from pares.supervise.contention import contention
from pares.supervise.grace import check_grace, limits, rhythm, room_for_grace, usual_grace


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


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("session", [0.3, 1.0, 5.0, 10.0, 60.0])
def test_every_protocol_has_its_own_sum(name: ProtocolName, session: float) -> None:
    of, room = rhythm(name, session), room_for_grace(session, name=name)
    check_grace(usual_grace(session, name), session, name=name)
    check_grace(room, session, name=name)
    with pytest.raises(ConfigError, match="does not fit a session of") as refused:
        check_grace(room + 0.001, session, name=name)
    assert f"{of.lease:.3f} s" in str(refused.value)
    assert name == "claims" or f"protocol '{name}'" in str(refused.value)
    if "or a session of" in str(refused.value):
        needed = float(str(refused.value).split("session of ")[2].split()[0])
        check_grace(room + 0.001, needed, name=name)
    # TERM comes after the latest renewal of a healthy holder, and KILL before the end of the lease.
    kept = limits(of.span, room)
    assert 0 < kept.margin / 1e9 < of.lease
    assert (kept.grace + kept.margin + kept.tick) / 1e9 <= of.lease - of.renewal - of.late + 1e-6


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("session", [0.3, 1.0, 5.0, 60.0])
def test_a_member_takes_the_settings_that_the_sum_rests_on(memory: str, name: ProtocolName, session: float) -> None:
    """They are in force as they stand, and renewals come as often as the sum says, or more often."""
    asked = contention(name, session, 1, "sqlite:///x.db")
    of = rhythm(name, session)
    with pares.Member(memory, group="g", roles=["r"], **asked.settings) as me:
        me.close(timeout=0.01)  # NELE would go on until somebody follows
        core = vars(me._loop)["binding"].core  # pyright: ignore[reportPrivateUsage]
        if name == "allcall":
            assert me.session == pytest.approx(of.lease)
        elif name == "claims":
            assert me.session == session
        else:
            config = core.config  # type: ignore[union-attr]  # pyright: ignore
            assert config.threshold_ms == pytest.approx(of.span * 1000, abs=1)
            assert config.interval_ms / 1000 <= of.renewal + 0.001


def test_what_contends_how() -> None:
    assert contention("claims", None, 1, "kafka://h:1/t").settings == {"session": 5.0}
    assert contention("fast-neli", None, 1, "kafka://h:1/t").session == 6.0, "the least of a stock consumer group"
    assert contention("fast-neli", None, 2, "kafka://h:1/t").session == 5.0, "several seats: by claims"
    assert contention("neli", None, 1, "sqlite:///x.db").clock_error == 0.0
    assert contention("neli", None, 1, "kafka://h:1/t").clock_error == 0.05
    assert "session" not in contention("allcall", 3.0, 1, "nats://h:1").settings
    with pytest.raises(CapabilityError, match="'raft' is not in this version"):
        contention("raft", None, 1, "sqlite:///x.db")
    with pytest.raises(ConfigError, match=r"give 0\.05 to 60 s"):
        contention("allcall", 0.01, 1, "sqlite:///x.db")
    with pytest.raises(ConfigError, match="clocks may be off"):
        contention("neli", 0.2, 1, "kafka://h:1/t")

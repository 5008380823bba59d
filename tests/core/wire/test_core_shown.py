"""What people see of a token."""

from __future__ import annotations

import pytest

from pares.core.wire.shown import short_token, short_tokens


@pytest.mark.parametrize(
    ("token", "shown"),
    [(1795351346083130, "...083130"), (1795351346000007, "...000007"), (999_999, "999999"), (7, "7"), (None, "")],
)
def test_a_token_alone(token: int | None, shown: str) -> None:
    assert short_token(token) == shown


def test_what_is_compared_ends_in_its_order() -> None:
    """Tokens of a log whose base was raised in between lie seconds apart."""
    low, high = 1795363280769627, 1795363282750139
    assert (short_token(low, high), short_token(high, low)) == ("...0769627", "...2750139")
    assert short_tokens(f"token {low} is below {high}") == "token ...0769627 is below ...2750139"
    assert short_token(low, low + 5) == "...769627"
    assert short_token(999_999, 1_000_001) == "999999"
    assert short_token(1_000_001, 999_999) == "1000001"


def test_tokens_in_a_sentence() -> None:
    said = "2 exceptions; the first: role r, token 1795351346083130 after 1795351346083131."
    assert short_tokens(said) == "2 exceptions; the first: role r, token ...083130 after ...083131."


@pytest.mark.parametrize("said", ["by web-41-1795301153450~8cdc36bc", "4 terms in 60000 ms", "v1795351346083130x"])
def test_other_numbers_stay(said: str) -> None:
    assert short_tokens(said) == said

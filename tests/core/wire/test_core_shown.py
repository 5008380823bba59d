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


def test_tokens_in_a_sentence() -> None:
    said = "2 exceptions; the first: role r, token 1795351346083130 after 1795351346083131."
    assert short_tokens(said) == "2 exceptions; the first: role r, token ...083130 after ...083131."


@pytest.mark.parametrize("said", ["by web-41-1795301153450~8cdc36bc", "4 terms in 60000 ms", "v1795351346083130x"])
def test_other_numbers_stay(said: str) -> None:
    assert short_tokens(said) == said

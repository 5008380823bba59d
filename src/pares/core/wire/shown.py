"""Numbers as people read them.

A token is a wall-clock time in microseconds and more: sixteen digits, of which the first ten are the same for all that a
person compares at one time. What programs read (`--json`, tables, logs) has them whole.
"""

from __future__ import annotations

import re
from typing import Final

DIGITS: Final = 6
"""How many of a token's digits are shown: two tokens of one group that end alike lie 10**6 records or a second apart."""
_TOKEN: Final = re.compile(r"\b\d{15,19}\b")
"""What is a token in a sentence. Times in milliseconds, as names made by pares have them, are of thirteen digits."""


def short_token(token: int | None) -> str:
    """The end of a token, as in `...083130`; a small one as it is; nothing for None."""
    if token is None:
        return ""
    return str(token) if 0 <= token < 10**DIGITS else f"...{token % 10**DIGITS:0{DIGITS}d}"


def short_tokens(sentence: str) -> str:
    """The same of each token in a sentence."""
    return _TOKEN.sub(lambda found: short_token(int(found[0])), sentence)

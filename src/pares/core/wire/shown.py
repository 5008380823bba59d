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


def short_token(token: int | None, *beside: int) -> str:
    """The end of a token, as in `...083130`; a small one as it is; nothing for None. `beside`: tokens that it is compared with
    where it stands: then so much is shown that their ends are in the order of the tokens."""
    if token is None:
        return ""
    digits = DIGITS
    while any(token // 10**digits != other // 10**digits for other in beside):
        digits += 1
    return str(token) if 0 <= token < 10**digits else f"...{token % 10**digits:0{digits}d}"


def short_tokens(sentence: str) -> str:
    """The same of each token in a sentence."""
    found = [int(token) for token in _TOKEN.findall(sentence)]
    return _TOKEN.sub(lambda token: short_token(int(token[0]), *found), sentence)

"""What the tests of SQLite ledgers' files share."""

from pathlib import Path

import pytest

import pares.ledger
from pares.core.errors import ParesError
from pares.ledger import Ledger


def open_file(path: Path, **options: object) -> Ledger:
    return pares.ledger.open(f"sqlite:///{path}", **options)


def refused(path: Path, error: type[ParesError], says: str, **options: object) -> None:
    """Opening it raises this, which names the path and says that."""
    with pytest.raises(error) as caught:
        open_file(path, **options)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)

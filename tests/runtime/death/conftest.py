from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from proof_tools import Holder


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Holder]:
    holder = Holder(tmp_path)
    yield holder
    holder.close()

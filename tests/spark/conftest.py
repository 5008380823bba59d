from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pares.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """One Spark for the whole run: starting one takes five seconds, and a first query of each kind as long again."""
    return session("pares-tests")

"""A heap that is too small for what was asked: said in words."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pares.core.errors import CapabilityError
from pares.spark.session import out_of_memory


@contextmanager
def in_memory() -> Iterator[None]:
    """What ends a JVM that was started here for want of memory is said in words."""
    root = logging.getLogger()
    root.addFilter(_is_not_raised)
    try:
        yield
    except Exception as error:
        said = out_of_memory()
        if said is None:
            raise
        raise CapabilityError(said) from error
    finally:
        root.removeFilter(_is_not_raised)


def _is_not_raised(record: logging.LogRecord) -> bool:
    """py4j gives the root logger, with its trace, what it raises anyway, where a JVM that ends resets the connection."""
    return record.msg != "Exception while sending command."

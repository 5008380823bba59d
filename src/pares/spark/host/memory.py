"""A heap that is too small for what was asked: said in words."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pares.core.errors import CapabilityError, ParesError
from pares.spark.session import out_of_memory


@contextmanager
def in_memory() -> Iterator[None]:
    """What ends a JVM that was started here for want of memory is said in words. Errors of pares' own stay what they are."""
    root, only = logging.getLogger(), _Only()
    root.addFilter(only)
    try:
        yield
    except ParesError:
        raise
    except Exception as error:
        said = out_of_memory()
        if said is None:
            raise
        raise CapabilityError(said) from error
    finally:
        root.removeFilter(only)


class _Only(logging.Filter):
    """Keeps back what py4j gives the root logger, with its trace, and raises anyway, where a JVM that ends resets the
    connection."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.msg != "Exception while sending command."

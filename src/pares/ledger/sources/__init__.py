"""Sources: what consumers read from, on whatever ledger or service (see `pares.ledger.source`)."""

from pares.ledger.source import Fetched, HasSources, Record, Source

from .opening import open_source

__all__ = ["Fetched", "HasSources", "Record", "Source", "open_source"]

"""Sources: what consumers read from, on whatever ledger or service (see `pares.ledger.source`)."""

from pares.ledger.source import Fetched, GroupOffsets, HasGroupOffsets, HasSources, Record, Source

from .opening import open_source

__all__ = ["Fetched", "GroupOffsets", "HasGroupOffsets", "HasSources", "Record", "Source", "open_source"]

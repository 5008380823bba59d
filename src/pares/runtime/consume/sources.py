"""The topics of one consumer: those that it was given, and those that it has opened and closes."""

from __future__ import annotations

from collections.abc import Iterable

from pares.ledger import Ledger
from pares.ledger.sources import Source, open_source


class Sources:
    """`where`: the ledger of topics that are given by their names."""

    def __init__(self, topics: Iterable[str | Source], where: str | Ledger) -> None:
        self.by_name: dict[str, Source] = {}
        self._own: list[Source] = []
        try:
            for topic in topics:
                if isinstance(topic, str):
                    opened = open_source(where, topic)
                    self._own.append(opened)
                    self.by_name[topic] = opened
                    continue
                self.by_name[topic.name] = topic
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Of those that were opened here."""
        for source in self._own:
            source.close()

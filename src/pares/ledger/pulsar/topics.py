"""The topics behind a log: made when they are missing, and told from others.

A partition of a log is a topic of its own, without partitions: partition 0 of the log `work` is the topic `work`, partition 1
is `work=1`. (Pulsar's own partitions can't be made anew as long as some client asks for one of them.) On each stands a durable
subscription of the name `pares`, which has two tasks:

- a broker deletes nothing that a subscription has not acknowledged. Nobody consumes by this one; it is moved up when the log is
  trimmed. So no retention needs to be set, and a topic is not deleted for being idle;
- its property `pares`, drawn at random, says which log this is. It goes with the topic.
"""

from __future__ import annotations

import secrets
import time

from pares.core.errors import CapabilityError, ConfigError
from pares.ledger.pulsar.admin import Admin
from pares.ledger.pulsar.client import Client
from pares.ledger.pulsar.errors import NO_RIGHT, NO_TOPIC, Refused, unavailable
from pares.ledger.pulsar.settings import MOST, Settings

_HEAD = b'{"pares":'
_PAUSE = 0.1
_LEAST = (3, 0)
"""The version from which on a ledger was seen to find what it asks a server for; older ones were not tried."""


class Topics:
    """For any thread. Raises `Refused`, `Broken`, and what users are to hear."""

    def __init__(self, settings: Settings, client: Client, admin: Admin) -> None:
        self._settings = settings
        self._client = client
        self._admin = admin

    def check_version(self) -> str:
        """The server's version. Raises `CapabilityError` for one that is too old."""
        said = self._admin.version()
        numbers = [int(part) for part in said.split("-")[0].split(".")[:2] if part.isdigit()]
        if len(numbers) == 2 and (numbers[0], numbers[1]) < _LEAST:
            raise CapabilityError(
                f"{self._settings.where}: the server is Pulsar {said}; a ledger needs {_LEAST[0]}.{_LEAST[1]} or newer"
            )
        return said

    def count(self, topic: str) -> int:
        """How many partitions the log has, whose first one is there."""
        found = 1
        while found < MOST and self._admin.mark(self._settings.name(topic, found)) is not None:
            found += 1
        return found

    def mark(self, name: str) -> str:
        """Which log a partition's topic is. Raises `Refused` if there is none."""
        found = self._admin.mark(name)
        if found is None:
            raise Refused(NO_TOPIC, f"the topic {name} is not there, or is no ledger's")
        return found

    def there(self, topic: str) -> bool:
        return self._admin.mark(self._settings.name(topic, 0)) is not None

    def settle(self, topic: str, partitions: int) -> bool:
        """See to it that the log is there; whether it was made. The first partition is marked last: a log that is there has
        them all, but while it grows."""
        if self.there(topic):
            return False
        for partition in reversed(range(partitions)):
            self.make(self._settings.name(topic, partition))
        return True

    def make(self, name: str) -> None:
        """A partition's topic, unless it is there. A broker may go on for a moment to believe that a topic is there which was
        deleted, or is not which was made."""
        until = time.monotonic() + self._settings.connect
        while True:
            try:
                self._create(name)
                self._begin(name)
                return
            except Refused as error:
                if error.code != NO_TOPIC or time.monotonic() > until:
                    raise
            time.sleep(_PAUSE)

    def _create(self, name: str) -> None:
        settings = self._settings
        try:
            self._admin.make(name)
        except Refused as error:
            if error.code == NO_TOPIC:
                raise ConfigError(
                    f"{settings.where}: there is no tenant {settings.tenant} with a namespace {settings.namespace}: name "
                    f"another one, or have it made ({error})"
                ) from None
            if error.code != NO_RIGHT:
                raise
            if not self._admin.is_there(name):
                raise unavailable(
                    settings.where,
                    f"make the topic {name}",
                    f"the role is none of the tenant's admins: have one make it (pulsar-admin topics create "
                    f"{settings.full(name)}), and grant the role produce and consume",
                ) from None
        if self._admin.partitions(name):
            raise ConfigError(
                f"{settings.where}: the topic {name} has partitions, so it is none that pares has made; it was left as it is: "
                "name another one"
            )

    def grow(self, topic: str, there: int, partitions: int) -> None:
        for partition in range(there, partitions):
            self.make(self._settings.name(topic, partition))

    def _begin(self, name: str) -> None:
        """Mark a partition's topic as a log's, unless it is. Raises `ConfigError` for one that is somebody else's."""
        if self._admin.mark(name) is not None:
            return
        reader = self._client.reader(name, -1)
        try:
            first = reader.next(self._settings.timeout) if reader.any() else None
        finally:
            reader.close()
        if first is not None and not first.data.startswith(_HEAD):
            raise ConfigError(
                f"{self._settings.where}: the topic {name} has messages of somebody else; it was left as it is: name another "
                "one"
            )
        self._admin.put_mark(name, secrets.token_urlsafe(9))

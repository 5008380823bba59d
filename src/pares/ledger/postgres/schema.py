"""The two tables: made when they are missing, and told from what is somebody else's by the comment that they bear.

`pares` has the entries, `pares_logs` a row for each partition of each log: `first` is the lowest offset left, `next` the one
to be given out. `next` stands in a row of its own so that trimming everything can't give an offset out twice. `id` is drawn
when the row is made, and is a part of the log's identity.
"""

from __future__ import annotations

from typing import Final

from pares.core.errors import CapabilityError, ConfigError
from pares.ledger.postgres.link import Link
from pares.ledger.postgres.settings import Settings, stored
from pares.ledger.postgres.wire import Wire, number

VERSION: Final = 1
"""The newest layout that this code reads and writes."""
_SIGN: Final = "pares ledger, layout "
_RIGHTS: Final = (("entries", "SELECT"), ("entries", "INSERT"), ("logs", "SELECT"), ("logs", "UPDATE"))
"""What a member needs."""


class Schema:
    """Making and telling. All of it may raise `LedgerUnavailable`."""

    def __init__(self, settings: Settings, link: Link) -> None:
        self._settings = settings
        self._link = link
        self._found = (
            "SELECT c.relkind::text, coalesce(obj_description(c.oid, 'pg_class'), ''), c.relpersistence::text, "
            "has_table_privilege(c.oid, 'SELECT')::int::bigint, has_table_privilege(c.oid, 'INSERT')::int::bigint, "
            "has_table_privilege(c.oid, 'UPDATE')::int::bigint, has_table_privilege(c.oid, 'DELETE')::int::bigint, "
            "current_user::text, t.what "
            "FROM (VALUES ('entries', $1::text), ('logs', $2::text)) t(what, name) "
            "JOIN pg_class c ON c.oid = to_regclass(t.name)"
        )

    @property
    def ddl(self) -> str:
        """The statements that make the tables."""
        entries, logs, sign = self._settings.entries, self._settings.logs, f"{_SIGN}{VERSION}"
        return (
            f"CREATE TABLE {logs} (log int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text NOT NULL, "
            "partition int NOT NULL, id text NOT NULL, first bigint NOT NULL DEFAULT 0, next bigint NOT NULL DEFAULT 0, "
            # Each append writes its row anew: room on the page for that, so that no index changes.
            "UNIQUE (topic, partition)) WITH (fillfactor = 30); "
            f"CREATE TABLE {entries} (log int NOT NULL, n bigint NOT NULL, at timestamptz NOT NULL, payload bytea NOT NULL, "
            "PRIMARY KEY (log, n)); "
            f"ALTER TABLE {entries} ALTER COLUMN payload SET STORAGE EXTERNAL; "
            f"COMMENT ON TABLE {entries} IS '{sign}'; COMMENT ON TABLE {logs} IS '{sign}'"
        )

    def settle(self, partitions: int) -> bool:
        """See to it that the tables are there, and the ledger's own log in them. Whether the log was made here."""
        with self._link.wire("look for the tables", self._settings.connect) as (wire, deadline):
            if not self._look(wire, deadline):
                self._may_make(wire, deadline)
                making = f"{self._alone(wire)}; SELECT to_regclass('{self._settings.entries}') IS NULL"
                found = wire.script(f"BEGIN; {making}", deadline)
                if found[-1].get_value(0, 0) == b"t":
                    wire.script(self.ddl, deadline)
                wire.script("COMMIT", deadline)
                self._look(wire, deadline)
            self._may_use(wire, deadline)
        return not self.there("") and self.add("", partitions)

    def there(self, topic: str) -> bool:
        """Whether there is such a log."""
        sql = f"SELECT count(*) FROM {self._settings.logs} WHERE topic = $1::text"
        rows = self._link.ask(sql, [stored(topic)], "look for the log", seconds=self._settings.connect)
        return number(rows[0][0]) > 0

    def found(self) -> None:
        """Raise `ConfigError` unless there is a ledger."""
        with self._link.wire("look for the tables", self._settings.connect) as (wire, deadline):
            if not self._look(wire, deadline):
                raise ConfigError(
                    f"{self._settings.where}: there is no such table, and readonly makes nothing: start a member first"
                )

    def add(self, topic: str, partitions: int) -> bool:
        """Make a topic with so many partitions unless it is there. Whether it was made here."""
        with self._link.wire(f"make the log {topic!r}", self._settings.connect) as (wire, deadline):
            logs = self._settings.logs
            done = wire.script(
                f"BEGIN; {self._alone(wire)}; {self._rows(topic, partitions)} "
                f"WHERE NOT EXISTS (SELECT 1 FROM {logs} WHERE topic = '{stored(topic)}'); COMMIT",
                deadline,
            )
            return any(result.command_status == b"INSERT 0 %d" % partitions for result in done)

    def grow(self, partitions: int) -> None:
        """Give the ledger's own log the partitions that it lacks."""
        with self._link.wire("add partitions", self._settings.connect) as (wire, deadline):
            wire.script(
                f"BEGIN; {self._alone(wire)}; {self._rows('', partitions)} ON CONFLICT (topic, partition) DO NOTHING; COMMIT",
                deadline,
            )

    def lacking(self) -> tuple[list[str], bool]:
        """Rights that a member needs and the user lacks, that of trimming too; and whether the tables are unlogged."""
        with self._link.wire("look at the tables", self._settings.connect) as (wire, deadline):
            rows = self._tables(wire, deadline)
        lacking = [
            f"{right} on {self._named(what)}"
            for what, right in (*_RIGHTS, ("entries", "DELETE"))
            if what in rows and not number(rows[what][3 + ("SELECT", "INSERT", "UPDATE", "DELETE").index(right)])
        ]
        return lacking, any(row[2] == b"u" for row in rows.values())

    def _alone(self, wire: Wire) -> str:
        return (
            f"SET LOCAL lock_timeout = {round(self._settings.connect * 600)}; "
            f"SET LOCAL statement_timeout = {round(self._settings.connect * 600)}; "
            f"SELECT pg_advisory_xact_lock({self._settings.making})"
        )

    def _rows(self, topic: str, partitions: int) -> str:
        return (
            f"INSERT INTO {self._settings.logs} (topic, partition, id) SELECT '{stored(topic)}', p, "
            f"replace(gen_random_uuid()::text, '-', '') FROM generate_series(0, {partitions - 1}) p"
        )

    def _look(self, wire: Wire, deadline: float) -> bool:
        """Whether the tables are there; raises for those of somebody else, or of a newer pares."""
        there = self._tables(wire, deadline)
        for what, row in there.items():
            sign = (row[1] or b"").decode()
            if row[0] != b"r" or not sign.startswith(_SIGN):
                raise ConfigError(
                    f"{self._settings.where}: {self._named(what)} is no table of a pares ledger (it has not its comment); it "
                    "was left as it is: name another one by ?table="
                )
            layout = sign.removeprefix(_SIGN)
            if not layout.isdecimal() or int(layout) > VERSION:
                raise CapabilityError(
                    f"{self._settings.where}: {self._named(what)} is of layout {layout}, made by a newer pares; this one knows "
                    f"layouts up to {VERSION}: upgrade pares in this process"
                )
        if len(there) == 1:
            lost = self._named("logs" if "entries" in there else "entries")
            raise ConfigError(
                f"{self._settings.where}: {lost} is missing: restore it, or name another table by ?table="
            )
        return bool(there)

    def _tables(self, wire: Wire, deadline: float) -> dict[str, list[bytes | None]]:
        """Those that are there, at one moment: somebody may be making them."""
        rows = wire.query(self._found, [self._settings.entries, self._settings.logs], deadline)
        return {(row[8] or b"").decode(): row for row in rows}

    def _may_make(self, wire: Wire, deadline: float) -> None:
        schema = f"'{self._settings.schema}'" if self._settings.schema else "current_schema()"
        (row,) = wire.query(
            f"SELECT coalesce({schema}::text, ''), current_user::text, "
            f"coalesce((SELECT has_schema_privilege(n.oid, 'CREATE') FROM pg_namespace n WHERE n.nspname = {schema}), false)"
            "::int::bigint",
            [],
            deadline,
        )
        name, user = (row[0] or b"").decode() or "public", (row[1] or b"").decode()
        if not number(row[2]):
            raise ConfigError(
                f"{self._settings.where}: there is no such table, and the user {user} may not make one in the schema {name}: "
                f'let somebody who may open the ledger once, or GRANT CREATE ON SCHEMA "{name}" TO "{user}"'
            )

    def _may_use(self, wire: Wire, deadline: float) -> None:
        for table, row in self._tables(wire, deadline).items():
            for what, right in _RIGHTS:
                if what == table and not number(row[3 + ("SELECT", "INSERT", "UPDATE", "DELETE").index(right)]):
                    user = (row[7] or b"").decode()
                    raise ConfigError(
                        f"{self._settings.where}: the user {user} lacks {right} on {self._named(what)}: "
                        f'GRANT {right} ON {self._named(what)} TO "{user}"; docs/security.md has all that is needed'
                    )

    def _named(self, what: str) -> str:
        return self._settings.named + ("_logs" if what == "logs" else "")

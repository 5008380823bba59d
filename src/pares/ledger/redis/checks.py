"""What a server keeps, and what it may lose: said when a ledger is opened, and by `pares doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pares.ledger.redis.settings import Settings

GOOD, NOTE, WARNING, PROBLEM = "good", "note", "warning", "problem"
LOST: Final = (
    "two members may then believe in one role for up to a session, members begin anew, and tokens still rise: "
    "use a fence"
)
"""What becomes of the promises when a server lacks what another one, or itself, has acknowledged."""


def kept(info: Mapping[str, str], settings: Settings, fsync: str | None) -> Iterator[tuple[str, str]]:
    """(level, text) of what the server's own settings promise. `fsync`: how it syncs, None if the user may not ask for it."""
    if info.get("aof_enabled") != "1":
        yield (
            PROBLEM,
            "appendonly is off: a restart of the server loses all that came after its last snapshot, or everything; "
            f"{LOST}. Set `appendonly yes`",
        )
    else:
        yield from _synced(fsync)
    policy, most = info.get("maxmemory_policy", ""), int(info.get("maxmemory", "0") or 0)
    if policy.startswith("allkeys"):
        yield (
            PROBLEM,
            f"maxmemory_policy={policy}: under pressure the server deletes the log, and the group begins anew; set noeviction "
            "or a volatile policy, or use a server of its own"
            + ("" if most else " (maxmemory is not set now: nothing is deleted yet)"),
        )
    followers = int(info.get("connected_slaves", "0") or 0)
    if followers and settings.replicas:
        yield (
            NOTE,
            f"an append waits for {settings.replicas} of {followers} replicas: a failover to one that had it loses nothing; "
            f"after one to another {LOST}",
        )
    elif followers or settings.sentinel:
        yield (
            WARNING,
            f"no append waits for a replica: a failover may lose acknowledged records; {LOST}. ?replicas=1 makes that rarer",
        )


def looked_over(
    info: Mapping[str, str], settings: Settings, fsync: str | None, entries: int
) -> Iterator[tuple[str, str]]:
    """All there is to say."""
    size = int(info.get("used_memory", "0") or 0) / 1e6
    yield GOOD, f"Redis {info.get('redis_version', '')}, {entries} entries in {settings.stream}, {size:.1f} MB in use"
    yield from kept(info, settings, fsync)
    most = int(info.get("maxmemory", "0") or 0)
    if most and size * 1e6 > 0.9 * most:
        yield (
            WARNING,
            f"{size:.1f} MB of maxmemory ({most / 1e6:.1f} MB) are in use: at the limit no append is taken; raise it",
        )
    if info.get("rdb_last_bgsave_status", "ok") != "ok" or info.get("aof_last_write_status", "ok") != "ok":
        yield (
            PROBLEM,
            "the server could not save to its disk lately, and may take no writes: look at its disk and its log",
        )


def _synced(fsync: str | None) -> Iterator[tuple[str, str]]:
    if fsync is None:
        yield (
            NOTE,
            "this user may not ask for appendfsync (CONFIG GET): unless it is `always`, a crash of the server may lose "
            "two seconds",
        )
    elif fsync == "always":
        yield GOOD, "what is acknowledged is on the server's disk (appendfsync=always)"
    else:
        # With everysec the server answers before it writes while the sync before that is still under way.
        much = "up to two seconds of acknowledged records" if fsync == "everysec" else "what the system has not written"
        yield (
            WARNING,
            f"appendfsync={fsync}: a crash of the server, or a loss of power, loses {much}; {LOST}. Set `always`",
        )

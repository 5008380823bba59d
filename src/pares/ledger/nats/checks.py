"""What `pares doctor` says of a stream, and of the servers that hold it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pares.ledger.base import MAX_PAYLOAD
from pares.ledger.nats.stream import Stream

GOOD, NOTE, WARNING, PROBLEM = "good", "note", "warning", "problem"
_HEADER: Final = 512


def checks(
    found: Stream | None, name: str, retention: float | None, max_payload: int, monitors: Sequence[str], timeout: float
) -> Iterator[tuple[str, str]]:
    """(level, text) of everything there is to say."""
    if found is None:
        yield PROBLEM, f"the stream {name} is gone"
        return
    yield from _copies(found)
    yield from _contents(found.config, retention)
    yield from _limits(found.config, max_payload)
    yield from _sync(found, monitors, timeout)


def _copies(found: Stream) -> Iterator[tuple[str, str]]:
    replicas = int(found.config.get("num_replicas", 1))
    if replicas < 2:
        yield WARNING, f"the stream {found.name} has one replica: a server that is lost takes it with it"
    elif replicas == 2:
        yield (
            WARNING,
            f"the stream {found.name} has 2 replicas: either server that is down stops every append; give it 3",
        )
    else:
        yield GOOD, f"the stream {found.name} has {replicas} replicas"
    peers: list[Mapping[str, Any]] = found.cluster.get("replicas") or []
    late = [str(peer.get("name")) for peer in peers if peer.get("offline") or not peer.get("current")]
    if late:
        yield WARNING, f"replicas of the stream are not up to date: {', '.join(late)}; look whether these servers run"
    if found.config.get("storage") != "file":
        lost = "a restart of the server empties it" if replicas < 2 else "servers that restart at once empty it"
        yield PROBLEM, f"the stream {found.name} is in memory only: {lost}"
    if found.config.get("persist_mode") == "async":
        yield PROBLEM, "persist_mode=async: the server acknowledges what is not stored yet; leave it out"


def _contents(config: Mapping[str, Any], retention: float | None) -> Iterator[tuple[str, str]]:
    keep = int(config.get("max_age", 0)) / 1e9
    if keep > 0 and (retention is None or keep < retention):
        asked = "for ever" if retention is None else f"{retention:g} s"
        yield (
            PROBLEM,
            f"max_age={keep:g} s: the server deletes what the ledger was opened to keep {asked}, whether a snapshot stands "
            "behind it or not; raise it, or open the ledger with a shorter retention",
        )
    for name, what in (("max_msgs", "messages"), ("max_bytes", "bytes")):
        limit = int(config.get(name, -1))
        if limit < 0:
            continue
        if config.get("discard") == "new":
            yield WARNING, f"{name}={limit} with discard=new: at so many {what} every append is refused"
        else:
            yield PROBLEM, f"{name}={limit}: at so many {what} the server deletes records, however young they are"
    if config.get("deny_purge"):
        yield WARNING, "deny_purge: members can't trim the log, which grows until max_age"
    if config.get("allow_rollup_hdrs"):
        yield NOTE, "allow_rollup_hdrs: a client that publishes there can delete all that was before"
    if config.get("subject_delete_marker_ttl") or config.get("allow_msg_ttl"):
        yield NOTE, "allow_msg_ttl: a client that publishes there can have messages forgotten in the middle"


def _limits(config: Mapping[str, Any], max_payload: int) -> Iterator[tuple[str, str]]:
    if not config.get("allow_atomic"):
        yield NOTE, "the stream has no atomic batches (allow_atomic): an append of many may be taken in parts"
    subjects: list[str] = config.get("subjects") or []
    if not any({"*", ">"} & {*subject.split(".")} for subject in subjects):
        yield (
            WARNING,
            f"the stream's subjects ({', '.join(subjects)}) leave no place for one of each ledger's own: an append of unknown "
            "outcome may land at any later time. Add a subject that ends in .*",
        )
    size = int(config.get("max_msg_size", -1))
    for name, limit in (("max_payload", max_payload), ("max_msg_size", size)):
        if 0 < limit < MAX_PAYLOAD:
            yield (
                WARNING,
                f"{name}={limit}: a payload of {MAX_PAYLOAD} bytes does not fit; snapshots of large groups may fail",
            )
        elif 0 < limit < MAX_PAYLOAD + _HEADER:
            yield (
                NOTE,
                f"{name}={limit}: a payload of nearly {MAX_PAYLOAD} bytes goes without its fence, and may land late",
            )


def _sync(found: Stream, monitors: Sequence[str], timeout: float) -> Iterator[tuple[str, str]]:
    """Whether servers sync each write. They say so nowhere but at their monitoring port."""
    if not monitors:
        yield (
            NOTE,
            "whether the servers sync each write to disk can't be seen from here: their configuration should have jetstream "
            "{ sync_interval: always }, or a loss of power loses acknowledged records. With monitor=HOST:PORT (of each "
            "server's monitoring) in the ledger's URL this is looked at",
        )
    for monitor in monitors:
        try:
            told = _ask(monitor, timeout)
            config: Mapping[str, Any] = told["jetstream"]["config"]
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            yield (
                WARNING,
                f"{monitor} does not say how its server is configured ({error!r}): correct monitor=",
            )
            continue
        server = told.get("server_name") or monitor
        if config.get("sync_always"):
            yield GOOD, f"the server {server} syncs each write to disk"
        else:
            every = int(config.get("sync_interval", 0)) / 1e9
            yield (
                WARNING if int(found.config.get("num_replicas", 1)) > 2 else PROBLEM,
                f"the server {server} syncs writes to disk every {every:g} s only: a loss of power loses what was acknowledged "
                "since; set jetstream { sync_interval: always }",
            )


def _ask(monitor: str, timeout: float) -> Any:
    connection = http.client.HTTPConnection(monitor, timeout=timeout)
    try:
        connection.request("GET", "/varz")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()

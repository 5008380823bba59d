"""What a cluster keeps, and what in a namespace's settings may take it away: said by `pares doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pares.ledger.pulsar.settings import SUBSCRIPTION, Settings

GOOD, NOTE, WARNING, PROBLEM = "good", "note", "warning", "problem"
_FACTOR: Final = 2


def checks(
    settings: Settings, version: str, entries: int, foreign: int, policies: Mapping[str, Any] | None
) -> Iterator[tuple[str, str]]:
    """`foreign`: messages that are none of the log's; `policies`: the namespace's, None if the role may not see them."""
    yield (
        GOOD,
        f"Pulsar {version}: {entries} offsets in {settings.full(settings.topic)}, kept by the subscription {SUBSCRIPTION} "
        "until they are trimmed",
    )
    yield NOTE, "times on entries are their writers': exclusive NELI, which needs the broker's, is not to be had"
    if foreign:
        yield (
            WARNING,
            f"{foreign} messages in the topic, of those read here, are none of the log's: find out who writes them",
        )
    if policies is None:
        yield (
            NOTE,
            "the role may not see the namespace's policies, so they were not looked over: message TTL, backlog quota, "
            "replication and the expiry of subscriptions each may lose a log (docs/operating.md)",
        )
        return
    yield from _policies(settings, policies)


def _policies(settings: Settings, policies: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    where = f"{settings.tenant}/{settings.namespace}"
    ttl = policies.get("message_ttl_in_seconds")
    least = None if settings.retention is None else _FACTOR * settings.retention
    if ttl and (least is None or ttl < least):
        yield (
            PROBLEM,
            f"the namespace {where} has a message TTL of {ttl} s, so brokers drop what the log still needs: remove it "
            f"(pulsar-admin namespaces remove-message-ttl {where})",
        )
    quotas: Mapping[str, Any] = policies.get("backlog_quota_map") or {}
    if any(each.get("policy") == "consumer_backlog_eviction" for each in quotas.values()):
        yield (
            PROBLEM,
            f"the namespace {where} has a backlog quota that evicts, so brokers drop what the log still needs: set its policy "
            "to producer_request_hold, or remove it",
        )
    clusters: list[str] = policies.get("replication_clusters") or []
    if len(clusters) > 1:
        yield (
            PROBLEM,
            f"the namespace {where} is replicated between {', '.join(sorted(clusters))}: each cluster has its own order, so "
            "members in two of them may lead at once; use a namespace of one cluster",
        )
    if policies.get("subscription_expiration_time_minutes"):
        yield (
            PROBLEM,
            f"the namespace {where} lets unused subscriptions expire, so a log that stands still is lost: set it to 0",
        )
    idle: Mapping[str, Any] = policies.get("inactive_topic_policies") or {}
    if idle.get("deleteWhileInactive") and idle.get("inactiveTopicDeleteMode") == "delete_when_subscriptions_caught_up":
        yield (
            WARNING,
            f"the namespace {where} deletes idle topics whose subscriptions have read all: a log that was trimmed to its "
            "end may go, and is another one then",
        )
    persistence: Mapping[str, Any] = policies.get("persistence") or {}
    if persistence.get("bookkeeperAckQuorum") == 1:
        yield (
            NOTE,
            f"the namespace {where} acknowledges what one bookie has: if its disk is lost, so is what was acknowledged",
        )

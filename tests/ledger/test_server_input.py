"""What can be wrong with the URL and the client settings of a ledger on a server; messages name the remedy and no secret."""

from __future__ import annotations

from typing import Any

import pytest

import pares.ledger
from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.ledger.registry import scheme_of
from planted_secret import SECRET, leaks

PLAIN = SECRET.replace("/", "")
"""As it may stand in a URL."""
POSTGRES = [
    ("postgresql://me:{}@h/db", "has a password in it.*PGPASSWORD"),
    ("postgresql://h:5432", "names no database"),
    ("postgresql://h:5432/", "names no database"),
    ("postgresql://h/a/b", "names no database"),
    ("postgresql:///db", "names no server"),
    ("postgresql://@h/db", "names no user before the @"),
    ("postgresql://h:0/db", "no HOST:PORT"),
    ("postgresql://h:99999/db", "no HOST:PORT"),
    ("postgresql://h/db?table=a;b", "can't name the ledger's table"),
    ("postgresql://h/db?table=" + "x" * 60, "can't name the ledger's table"),
    ("postgresql://h/db?colour=red", "unknown option colour"),
    ("postgresql://h/db?replication=3", "unknown option replication"),
    ("postgresql://h/db?config=/nowhere/at/all", "can't be read"),
]
REDIS = [
    ("redis://me:{}@h/0", "has a password in it.*REDISCLI_AUTH"),
    ("redis://:{}@h/0", "has a password in it.*REDISCLI_AUTH"),
    ("redis:///0", "names no server"),
    ("redis://@h/0", "names no user before the @"),
    ("redis://h:0/0", "no HOST:PORT"),
    ("redis://h:99999/0", "no HOST:PORT"),
    ("redis://h/mine", r"names no database: write its number.*\?stream=NAME"),
    ("redis://h/0/1", "names no database"),
    ("redis://h/0?stream=a b", "stream=a b is no such name"),
    ("redis://h/0?sentinel=a b", "sentinel=a b is no such name"),
    ("redis://h/0?stream=" + "x" * 101, "is no such name"),
    ("redis://h/0?replicas=-1", "no whole number"),
    ("redis://h/0?colour=red", "unknown option colour"),
    ("redis://h/0?replication=3", "unknown option replication"),
    ("redis://h/0?config=/nowhere/at/all", "can't be read"),
]
RABBITMQ = [
    ("rabbitmq-stream://me:{}@h/s", "has a password in it.*config=FILE"),
    ("rabbitmq-stream://:{}@h/s", "has a password in it.*config=FILE"),
    ("rabbitmq-stream:///s", "names no server"),
    ("rabbitmq-stream://@h/s", "names no user before the @"),
    ("rabbitmq-stream://h:0/s", "no HOST:PORT"),
    ("rabbitmq-stream://h:99999/s", "no HOST:PORT"),
    ("rabbitmq-stream://h,i/s", "a log is kept by one"),
    ("rabbitmq-stream://h", "names no stream"),
    ("rabbitmq-stream://h/", "names no stream"),
    ("rabbitmq-stream://h/a/b", "names no stream"),
    ("rabbitmq-stream://h/a=b", "names no stream"),
    ("rabbitmq-stream://h/" + "x" * 101, "names no stream"),
    ("rabbitmq-stream://h/s?partitions=201", "has at most 200"),
    ("rabbitmq-stream://h/s?colour=red", "unknown option colour"),
    ("rabbitmq-stream://h/s?replication=3", "unknown option replication"),
    ("rabbitmq-stream://h/s?config=/nowhere/at/all", "can't be read"),
    ("rabbitmq://h/s", "no scheme known"),
]
PULSAR = [
    ("pulsar://me:{}@h/a/b/c", r"has a user in it.*options=\{'token': ...\}"),
    ("pulsar://{}@h/a/b/c", "has a user in it"),
    ("pulsar:///a/b/c", "names no broker"),
    ("pulsar://h:0/a/b/c", "no HOST:PORT"),
    ("pulsar://h", "does not name tenant, namespace and topic"),
    ("pulsar://h/c", "does not name tenant, namespace and topic"),
    ("pulsar://h/a/b/c/d", "does not name tenant, namespace and topic"),
    ("pulsar://h/a$/b/c", "is no tenant of Pulsar"),
    ("pulsar://h/a/b*/c", "is no namespace of Pulsar"),
    ("pulsar://h/a/b/c:d", "is no topic for a ledger"),
    ("pulsar://h/a/b/c-partition-0", "no -partition-N"),
    ("pulsar://h/a/b/c?admin=h:8080", "admin is no http://HOST:PORT"),
    ("pulsar://h/a/b/c?admin=http://me:{}@h:8080", "it can't be taken apart"),
    ("pulsar://h/a/b/c?partitions=201", "has at most 200"),
    ("pulsar://h/a/b/c?colour=red", "unknown option colour"),
    ("pulsar+ssl://h/a/b/c?replication=3", "unknown option replication"),
    ("pulsar://h/a/b/c?config=/nowhere/at/all", "can't be read"),
]
KINESIS = [
    ("kinesis://me:{}@eu-central-1/s", "has credentials in it.*AWS_PROFILE"),
    ("kinesis://{}@eu-central-1/s", "has credentials in it.*AWS_PROFILE"),
    ("kinesis:///s", "names no region.*kinesis://eu-central-1/jobs"),
    ("kinesis://localhost:5000/s", r"no region of AWS.*\?endpoint=http://HOST:PORT"),
    ("kinesis://eu-central-1", "names no stream"),
    ("kinesis://eu-central-1/a/b", "names no stream"),
    ("kinesis://eu-central-1/a:b", "names no stream"),
    ("kinesis://eu-central-1/" + "x" * 61, "names no stream"),
    ("kinesis://eu-central-1/jobs.1", "further partitions and topics"),
    ("kinesis://eu-central-1/jobs.t-orders", "further partitions and topics"),
    ("kinesis://eu-central-1/s?endpoint=localhost:5000", "endpoint is no http://HOST:PORT"),
    ("kinesis://eu-central-1/s?endpoint=http://h:99999", "endpoint is no http://HOST:PORT"),
    ("kinesis://eu-central-1/s?endpoint=http://h/path", "endpoint is no http://HOST:PORT"),
    ("kinesis://eu-central-1/s?partitions=101", "has at most 100"),
    ("kinesis://eu-central-1/s?poll=0", "no number of seconds above 0"),
    ("kinesis://eu-central-1/s?colour=red", "unknown option colour"),
    ("kinesis://eu-central-1/s?replication=3", "unknown option replication"),
    ("kinesis://eu-central-1/s?config=/nowhere/at/all", "can't be read"),
]
QUEUES = [
    ("sqs://eu-central-1/q.fifo", "keeps no log, and no protocol of pares runs on it.*kinesis://REGION/STREAM"),
    ("amqp://h/q", "keeps no log, and no protocol of pares runs on it.*rabbitmq-stream://HOST:PORT/STREAM"),
    ("amqps://me:{}@h/q", "keeps no log, and no protocol of pares runs on it.*rabbitmq-stream://HOST:PORT/STREAM"),
]


@pytest.mark.parametrize(("url", "why"), QUEUES)
def test_a_queue_is_no_ledger_and_says_what_is(url: str, why: str) -> None:
    for open in (pares.ledger.open, pares.ledger.open_bus, scheme_of):
        with pytest.raises(CapabilityError, match=why) as caught:
            open(url.format(PLAIN))
        assert PLAIN not in str(caught.value)


def test_without_credentials_it_says_where_they_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    url = "kinesis://eu-central-1/s?endpoint=http://127.0.0.1:1"
    with pytest.raises(LedgerUnavailable, match="no credentials were found: set AWS_PROFILE"):
        pares.ledger.open(url)
    with pytest.raises(ConfigError, match=r"the profile can't be used.*name another one"):
        pares.ledger.open(url, options={"profile_name": "nobody"})
    with pytest.raises(LedgerUnavailable, match="nobody answers there") as caught:
        pares.ledger.open(url, options={"aws_access_key_id": "me", "aws_secret_access_key": SECRET})
    assert not leaks(str(caught.value))


@pytest.mark.parametrize(("url", "why"), POSTGRES + REDIS + RABBITMQ + PULSAR + KINESIS)
def test_bad_urls(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        pares.ledger.open(url.format(PLAIN) if "{}" in url else url)
    assert PLAIN not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "options", "why"),
    [
        ("postgresql://h/db", {"sslmode": "perhaps"}, "sslmode is 'perhaps': give one of disable, allow"),
        ("postgresql://h/db", {"channel_binding": 1}, "channel_binding is .*: give one of disable, prefer"),
        *(
            (url, {"passwort": SECRET}, "unknown client setting passwort")
            for url in (
                "postgresql://me@h/db",
                "redis://me@h/0",
                "rabbitmq-stream://me@h/s",
                "pulsar://h/a/b/c",
                "kinesis://eu-central-1/s",
            )
        ),
        *(
            (url, "text", "must be a dictionary")
            for url in ("postgresql://me@h/db", "redis://me@h/0", "rabbitmq-stream://me@h/s")
        ),
        ("pulsar://h/a/b/c", {"token": SECRET, "username": "me"}, "a token and a username: leave one of them out"),
        (
            "pulsar+ssl://h/a/b/c",
            {"tls_validate_hostname": "perhaps"},
            "tls_validate_hostname is neither true nor false",
        ),
        ("pulsar+ssl://h/a/b/c", {"tls_trust_certs_file_path": "/nowhere"}, "tls_trust_certs_file_path, tls_certif"),
        ("postgresql://me@h/db", {"user": "you"}, "names a user, and so do"),
        ("redis://me@h/0", {"username": "you"}, "names a user, and so do"),
        ("redis://me@h/0", {"ssl": "perhaps"}, "ssl is neither true nor false"),
        ("rabbitmq-stream://me@h/s", {"username": "you"}, "names a user, and so do"),
        ("rabbitmq-stream://me@h/s", {"ssl": "perhaps"}, "ssl is neither true nor false"),
        ("rabbitmq-stream://me@h/s", {"ssl": True, "ssl_ca_certs": "/nowhere"}, "ssl_ca_certs, ssl_certfile or"),
    ],
)
def test_bad_client_settings(url: str, options: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        pares.ledger.open(url, options=options)
    assert not leaks(str(caught.value))

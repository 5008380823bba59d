"""What a dev broker is told: its properties file, made from few choices.

What decides about *correctness* and about the length of an outage (acknowledgement, leader election, the timeouts of brokers
and controllers among three) is as in a stock broker of that version. What differs makes it small, or makes tests quick:

| setting | here | stock | why |
|---|---|---|---|
| `auto.create.topics.enable` | false | true | a mistyped topic is an error, not a topic |
| `default.replication.factor` | 1, or 3 on three nodes | 1 | |
| `min.insync.replicas` | 1, or 2 on three nodes | 1 | an acknowledged record survives a broker |
| `offsets.topic.*`, `transaction.state.log.*`, `share.coordinator.state.topic.*`: copies | 1 or 3 | 3 | |
| the same: number of partitions | 4 | 50 | the first consumer group is there at once |
| `group.initial.rebalance.delay.ms` | 0 | 3000 | a group's first member need not wait |
| `group.min.session.timeout.ms` | 100 | 6000 | tests of silent group members take less than 6 s each |
| `group.consumer.min.session.timeout.ms`, `group.consumer.min.heartbeat.interval.ms` | 100, 50 | 45000, 5000 | the same |
| `broker.session.timeout.ms`, `broker.heartbeat.interval.ms`, if alone | 2000, 500 | 9000, 2000 | an ended node may come back |
| `socket.listen.backlog.size` | 1024 | 50 | hundreds of members may start at once |
| `log.cleaner.dedupe.buffer.size` | 2 MB | 128 MB | it is taken on the heap |
| threads (`num.network.threads`, `num.io.threads`, `background.threads`) | 2, 4, 2 | 3, 8, 10 | |

Listeners: CLIENTS (also between brokers) and CONTROLLER.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pares.core.errors import ConfigError
from pares.dev.place import Place

ADMIN: Final = "admin"
"""The user who may do everything, and as whom brokers speak to each other."""
_USER: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
QUICK_RETURN: Final = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
"""Settings by which a node that was ended is let in again after two seconds, not nine: the ones of a node that is alone."""
OURS: Final = frozenset(
    {
        "process.roles",
        "node.id",
        "controller.quorum.voters",
        "controller.listener.names",
        "listeners",
        "advertised.listeners",
        "inter.broker.listener.name",
        "log.dirs",
        "log.dir",
        "metadata.log.dir",
    }
)
"""Settings that follow from the shape of the cluster; nobody may change them."""


@dataclass(frozen=True)
class Security:
    """What each user may do, and whether the wire is encrypted.

    With `users` (name: password), clients must log in (SASL, PLAIN), and may then do what an ACL grants them: nothing, to
    begin with. `admin` may do everything, such as creating topics and ACLs; its password is drawn if none is given. With
    `certificate` (a PEM file with a private key, unencrypted PKCS #8, and its certificate chain), clients must use TLS; the
    last certificate of the chain is what they have to trust. Brokers don't verify each other's host names.
    """

    users: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    certificate: Path | None = None

    def __post_init__(self) -> None:
        for user in self.users:
            if not _USER.fullmatch(user):
                raise ConfigError(
                    f"user {user!r} can't be used: a name has letters, digits, dots, - and _, at most 100"
                )
        if self.certificate is not None and not self.certificate.is_file():
            raise ConfigError(
                f"certificate {str(self.certificate)!r} is no file: name a PEM file with key and certificates"
            )
        if self.users and ADMIN not in self.users:
            object.__setattr__(self, "users", {**self.users, ADMIN: secrets.token_urlsafe(16)})

    @property
    def protocol(self) -> str:
        """Kafka's name for it: what clients put into `security.protocol`."""
        names = {(0, 0): "PLAINTEXT", (1, 0): "SASL_PLAINTEXT", (0, 1): "SSL", (1, 1): "SASL_SSL"}
        return names[bool(self.users), self.certificate is not None]

    def client(self, user: str | None = None, password: str | None = None) -> dict[str, str]:
        """What a client of librdkafka needs to connect as `user` (default: admin); another `password` makes it a wrong one."""
        settings = {"security.protocol": self.protocol}
        if self.users:
            user = user or ADMIN
            if password is None and user not in self.users:
                raise ConfigError(f"there is no user {user!r}, only {', '.join(sorted(self.users))}")
            settings |= {"sasl.mechanism": "PLAIN", "sasl.username": user}
            settings["sasl.password"] = self.users[user] if password is None else password
        if self.certificate is not None:
            settings["ssl.ca.location"] = str(self.certificate)
        return settings if self.protocol != "PLAINTEXT" else {}

    def broker(self) -> dict[str, str]:
        """The broker's side of it."""
        controller = "SASL_PLAINTEXT" if self.users else "PLAINTEXT"
        settings = {"listener.security.protocol.map": f"CLIENTS:{self.protocol},CONTROLLER:{controller}"}
        if self.users:
            logins = " ".join(f"user_{user}={_quoted(password)}" for user, password in sorted(self.users.items()))
            own = f"username={ADMIN} password={_quoted(self.users[ADMIN])}"
            jaas = f"{_PLAIN_MODULE} required {own} {logins};"
            settings |= {
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.clients.plain.sasl.jaas.config": jaas,
                "listener.name.controller.plain.sasl.jaas.config": jaas,
                "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": f"User:{ADMIN}",
            }
        if self.certificate is not None:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.certificate.absolute()),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.certificate.absolute()),
                "ssl.endpoint.identification.algorithm": "",
            }
        return settings


def properties(
    node: Place, places: Sequence[Place], data: Path, security: Security, extra: Mapping[str, str]
) -> dict[str, str]:
    """All settings of one node; `extra` has the last word, except on those that follow from the shape of the cluster."""
    replicas = min(3, len(places))
    insync = 2 if replicas == 3 else 1
    voters = ",".join(f"{place.id}@{place.peer_address}" for place in places)
    defaults: dict[str, str | int] = {
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": insync,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": insync,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": insync,
        "share.coordinator.state.topic.num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 100,
        "group.consumer.min.session.timeout.ms": 100,
        "group.consumer.min.heartbeat.interval.ms": 50,
        "log.cleaner.dedupe.buffer.size": 2_097_153,  # must be above 1 MB for each cleaner
        "num.network.threads": 2,
        "socket.listen.backlog.size": 1024,
        "num.io.threads": 4,
        "background.threads": 2,
    }
    if len(places) == 1:
        defaults |= QUICK_RETURN
    shape: dict[str, str | int] = {
        "process.roles": "broker,controller",
        "node.id": node.id,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CLIENTS://{node.address},CONTROLLER://{node.peer_address}",
        "advertised.listeners": f"CLIENTS://{node.address}",
        "inter.broker.listener.name": "CLIENTS",
        "log.dirs": str(data),
    }
    return {name: str(value) for name, value in (defaults | security.broker() | dict(extra) | shape).items()}


def check_extra(extra: Mapping[str, str]) -> None:
    """Raises `ConfigError` for a setting that is not for the user to choose."""
    if taken := sorted(OURS & extra.keys()):
        raise ConfigError(
            f"settings {', '.join(taken)} follow from the nodes, hosts and folder of a dev broker: choose those instead"
        )


def text(settings: Mapping[str, str]) -> str:
    """The properties file."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in sorted(settings.items()))


def _escaped(value: str) -> str:
    """As Java reads it: ISO 8859-1 at most, a backslash begins an escape, a space in front is dropped."""
    value = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    if value.startswith(" "):
        value = "\\" + value
    units = value.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)


def _quoted(value: str) -> str:
    """A string of the language in which Java is told of logins."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

"""What a broker is told, and where it listens."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pares.core.errors import CapabilityError, ConfigError
from pares.dev import Security, ports
from pares.dev.kafka.settings import ADMIN, OURS, properties, text
from pares.dev.place import Place

ONE = [Place(1, "127.0.0.1", 20001, 20002)]
THREE = [Place(at, f"10.0.0.{at}", 9092, 9093) for at in (1, 2, 3)]


def told(places: list[Place], **extra: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in extra.items()}
    return properties(places[-1], places, Path("/data"), Security(), named)


def test_nodes_with_an_address_each() -> None:
    settings = told(THREE)
    assert settings["controller.quorum.voters"] == "1@10.0.0.1:9093,2@10.0.0.2:9093,3@10.0.0.3:9093"
    assert settings["listeners"] == "CLIENTS://10.0.0.3:9092,CONTROLLER://10.0.0.3:9093"
    assert settings["advertised.listeners"] == "CLIENTS://10.0.0.3:9092"
    assert settings["node.id"] == "3"
    assert told([Place(1, "::1", 1, 2)])["listeners"] == "CLIENTS://[::1]:1,CONTROLLER://[::1]:2"


@pytest.mark.parametrize(("places", "copies", "confirm"), [(ONE, "1", "1"), (THREE[:2], "2", "1"), (THREE, "3", "2")])
def test_copies_follow_the_number_of_nodes(places: list[Place], copies: str, confirm: str) -> None:
    settings = told(places)
    assert {value for name, value in settings.items() if name.endswith("replication.factor")} == {copies}
    assert {value for name, value in settings.items() if name.endswith((".min.isr", "min.insync.replicas"))} == {
        confirm
    }


def test_the_user_has_the_last_word_but_not_on_the_shape() -> None:
    assert told(ONE, auto_create_topics_enable="true")["auto.create.topics.enable"] == "true"
    plain = told(ONE)
    odd = properties(ONE[0], ONE, Path("/data"), Security(), dict.fromkeys(OURS, "odd"))
    shape = OURS & plain.keys()
    assert {name: odd[name] for name in shape} == {name: plain[name] for name in shape}


def test_several_nodes_keep_the_stock_timeouts() -> None:
    assert "broker.session.timeout.ms" not in told(THREE)
    assert told(ONE)["broker.session.timeout.ms"] == "2000"


def test_the_file_is_one_line_a_setting_whatever_is_in_it() -> None:
    assert text({"b": "1", "a": "x=y: z"}) == "a=x=y: z\nb=1\n"
    assert text({"a": " two\nlines\\ \u00fc \U0001f600"}) == "a=\\ two\\nlines\\\\ \\u00fc \\ud83d\\ude00\n"


def test_an_admin_is_added_with_a_password_of_its_own() -> None:
    one, two = Security(users={"ann": "x"}), Security(users={"ann": "x"})
    assert one.users[ADMIN] != two.users[ADMIN]
    assert len(one.users[ADMIN]) >= 16
    assert Security(users={ADMIN: "mine"}).client()["sasl.password"] == "mine"
    assert Security().client() == {}


def test_ports_are_different_and_free_and_not_of_outgoing_connections() -> None:
    drawn = ports.free(["127.0.0.1"] * 50)
    assert len(set(drawn)) == 50
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    outside = max(low - ports.LOWEST, ports.HIGHEST - high)
    if outside >= 1000:
        assert not [port for port in drawn if low <= port <= high]
    assert all(ports.is_free("127.0.0.1", port) for port in drawn)
    with socket.create_server(("127.0.0.1", drawn[0])):
        assert not ports.is_free("127.0.0.1", drawn[0])
    assert ports.is_free("127.0.0.1", drawn[0])


def test_an_address_that_only_another_namespace_has() -> None:
    assert len(ports.free(["192.0.2.7"])) == 1  # an address for documentation: nobody has it
    with pytest.raises(ConfigError, match="'no such host' is no address"):
        ports.free(["no such host"])


def test_all_ports_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports, "_pool", lambda: range(port, port + 1))
        with pytest.raises(CapabilityError, match=r"no free port was found at 127\.0\.0\.1"):
            ports.free(["127.0.0.1"])


def test_pares_alone_loads_nothing_of_it() -> None:
    code = (
        "import sys, pares; pares.Member; assert not [name for name in sys.modules if name.startswith('pares.dev')];"
        "print(pares.dev.Kafka.__name__, 'pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Kafka False\n"

"""A real nats-server: it starts, serves, is killed, frozen and started again, and keeps what it acknowledged."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nats as client_library
import nats.errors
import pytest

from pares.core.errors import CapabilityError, ConfigError, LedgerUnavailable
from pares.dev import Nats, ports, state
from pares.dev.nats import server as nats_server

PATIENCE = 30.0


@pytest.fixture
def own() -> Iterator[Nats]:
    """A server that a test may harm."""
    with Nats() as server:
        yield server


def ask(server: Nats, subject: str, body: bytes = b"", node: int = 1, login: Mapping[str, str] | None = None) -> Any:
    """One request to one node, by the plain client library."""

    async def run() -> bytes:
        address = f"nats://{server.nodes[node - 1].place.address}"
        client = await client_library.connect(address, **(login or {}))  # pyright: ignore[reportArgumentType]
        try:
            return (await client.request(subject, body, timeout=PATIENCE)).data
        finally:
            await client.close()

    return json.loads(asyncio.run(run()))


def make_stream(server: Nats, replicas: int = 1) -> None:
    made = ask(
        server,
        "$JS.API.STREAM.CREATE.S",
        json.dumps({"name": "S", "subjects": ["s"], "num_replicas": replicas}).encode(),
    )
    assert "error" not in made, made


def count(server: Nats, node: int = 1) -> int:
    return ask(server, "$JS.API.STREAM.INFO.S", node=node)["state"]["messages"]


def append_by(server: Nats, node: int) -> int:
    """Append at one node, which may have to find the stream's leader first; nobody answers until then, and nothing is done."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return ask(server, "s", b"x", node=node)["seq"]
        except nats.errors.NoRespondersError:
            assert time.monotonic() < end
            time.sleep(0.02)


def answers(server: Nats, timeout: float = 5.0) -> bool:
    try:
        return nats_server.look(server.nodes[0].place, set(), timeout) is None
    except LedgerUnavailable:
        return False


def test_it_serves_when_start_returns(nats: Nats) -> None:
    node = nats.nodes[0]
    assert nats.url == f"nats://127.0.0.1:{node.port}/pares"
    assert nats.stream_url("work", replication=1) == f"nats://127.0.0.1:{node.port}/work?replication=1"
    assert node.running
    assert answers(nats)
    assert "error" not in ask(nats, "$JS.API.INFO")
    assert nats.client() == {}


def test_without_jetstream_there_is_no_log() -> None:
    with Nats(jetstream=False) as server:
        assert server.url == f"nats://127.0.0.1:{server.nodes[0].port}"
        with pytest.raises(nats.errors.NoRespondersError):
            ask(server, "$JS.API.INFO")


def test_acknowledged_messages_are_synced(nats: Nats) -> None:
    told = nats_server.ask(nats.nodes[0].place, "/varz", PATIENCE)
    assert told["jetstream"]["config"]["sync_always"] is True
    assert told["max_payload"] == nats_server.MAX_PAYLOAD


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_node_that_ended_comes_back_at_its_place_with_its_data(own: Nats, end: str) -> None:
    make_stream(own)
    assert ask(own, "s", b"x")["seq"] == 1
    before, pid = own.bootstrap, own.nodes[0].pid
    getattr(own, end)(1)
    assert not own.nodes[0].running
    assert not answers(own)
    own.restart(1)
    assert own.nodes[0].pid not in (None, pid)
    assert own.bootstrap == before
    assert count(own) == 1


def test_a_frozen_node_says_nothing_and_goes_on_where_it_was(own: Nats) -> None:
    own.freeze(1)
    assert (own.nodes[0].running, own.nodes[0].frozen) == (True, True)
    assert not answers(own, timeout=0.2)
    own.thaw(1)
    assert answers(own)
    own.freeze(1)
    own.kill(1)
    assert (own.nodes[0].running, own.nodes[0].frozen) == (False, False)


def test_closing_leaves_nothing() -> None:
    with Nats() as server:
        assert server.folder is not None
        folder, port, identity = server.folder, server.nodes[0].port, state.load(server.folder)
        assert identity is not None
        assert len(identity.alive()) == 1
        server.close()
        server.close()
    assert not identity.alive()
    assert not folder.exists()
    assert ports.is_free("127.0.0.1", port)
    with pytest.raises(ConfigError, match="this NATS is not started"):
        _ = server.url


def test_a_folder_keeps_the_cluster(tmp_path: Path) -> None:
    with Nats(folder=tmp_path / "n") as server:
        make_stream(server)
        ask(server, "s", b"x")
        url = server.url
        with pytest.raises(ConfigError, match=r"is running \(processes"):
            Nats(folder=tmp_path / "n").start()
    with Nats(folder=tmp_path / "n") as server:
        assert server.url == url
        assert count(server) == 1
    with pytest.raises(ConfigError, match="holds a cluster of 1, not of 3"):
        Nats(nodes=3, folder=tmp_path / "n").start()


def test_a_folder_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    state.save(tmp_path, state.Cluster("kafka", "4", "x", []))
    with pytest.raises(ConfigError, match="holds a cluster for kafka:// ledgers, no NATS"):
        Nats(folder=tmp_path).start()


def test_a_port_that_is_taken_between_the_draw_and_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """It draws again. The port is listened on, though the look at it said that it was free."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, free = taken.getsockname()[1], ports.free
        draws = [[port, *free(["127.0.0.1"] * 2)]]
        monkeypatch.setattr(ports, "free", lambda hosts: draws.pop() if draws else free(hosts))
        with Nats() as server:
            assert draws == []
            assert server.nodes[0].port != port
            assert answers(server)


def test_users(tmp_path: Path) -> None:
    with Nats(users={"ann": "secret", "bob": "it's {odd} $1"}) as server:
        for user in ("ann", "bob"):
            assert "error" not in ask(server, "$JS.API.INFO", login=server.client(user))
        assert server.client("bob", "wrong") == {"user": "bob", "password": "wrong"}
        with pytest.raises(ConfigError, match="no user 'eve', only ann, bob"):
            server.client("eve")


def test_other_settings_without_a_restart(own: Nats) -> None:
    pid = own.nodes[0].pid
    own.reload({"max_payload": 4096})
    assert nats_server.ask(own.nodes[0].place, "/varz", PATIENCE)["max_payload"] == 4096
    assert own.nodes[0].pid == pid
    with pytest.raises(CapabilityError, match=r"(?s)node 1 did not take other settings.*Failed to reload"):
        own.reload({"max_payload": "much"}, timeout=0.2)


def test_a_setting_that_the_server_refuses_is_quoted() -> None:
    server = Nats(settings={"no_such_thing": 1})
    with pytest.raises(
        CapabilityError, match=r'(?s)node 1 at 127.0.0.1:\d+ ended with 1.*unknown field "no_such_thing"'
    ):
        server.start()
    assert server.folder is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"nodes": 0}, "a cluster of 0 nodes"),
        ({"settings": {"listen": "0.0.0.0:1"}}, "listen follow"),
        ({"settings": {"jetstream": {"store_dir": "/tmp"}}}, "store_dir follow"),
        ({"survive": True}, "need a folder"),
    ],
)
def test_what_can_t_be_made_is_refused_at_once(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Nats(**arguments)  # pyright: ignore[reportArgumentType]


def test_without_the_program_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    with pytest.raises(CapabilityError, match=r"no nats-server was found.*pares\[nats-server\]"):
        Nats().start()


def test_what_is_no_program_says_so(tmp_path: Path) -> None:
    (tmp_path / "nats-server").write_text("")
    with pytest.raises(CapabilityError, match="can't be run"):
        nats_server.version(tmp_path / "nats-server")


def test_a_forked_child_closes_nothing(own: Nats) -> None:
    child = os.fork()
    if child == 0:
        own.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert answers(own)


@pytest.mark.processes
def test_three_nodes_and_what_one_of_them_suffers() -> None:
    with Nats(nodes=3) as three:
        make_stream(three, replicas=3)
        assert ask(three, "s", b"a")["seq"] == 1
        names = {nats_server.name_of(node.place) for node in three.nodes}
        for number in (1, 2, 3):
            place = three.nodes[number - 1].place
            assert nats_server.look(place, names, PATIENCE) is None
        three.kill(2)
        assert nats_server.look(three.nodes[0].place, names, PATIENCE) == "it is not connected to node-2"
        three.restart(2)
        three.freeze(3)
        three.wait_ready()  # who is frozen is not waited for
        three.thaw(3)
        assert append_by(three, 3) == 2
        assert [count(three, node) for node in (1, 2, 3)] == [2, 2, 2]

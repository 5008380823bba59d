"""Where members keep the locks that prove their deaths, and what is said where none can be had."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from runtime_tools import PATIENCE

import pares
from pares.core.errors import ConfigError


def test_the_locks_are_where_it_was_said(memory: str, tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    with pares.Member(memory, group="g", roles=["x"], lock_folder=folder) as me:
        assert me.wait("x", PATIENCE)
        assert me.lock is not None
        assert me.lock.path.parent == folder
        assert me.health().no_proof is None


def test_a_folder_that_takes_no_locks_is_told_of_once_with_what_is_lost(
    memory: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """U11: a read-only pod warned at each start of a member. (A file stands in its place here: root may write anywhere.)"""
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    folder = in_the_way / "locks"
    with caplog.at_level(logging.WARNING, "pares.member"):
        for _ in range(3):
            with pares.Member(memory, group="g", roles=["x"], lock_folder=folder) as me:
                assert me.wait("x", PATIENCE), "it leads all the same"
                assert me.lock is None
                assert me.health().no_proof
    said = [record.getMessage() for record in caplog.records if "no proof of death" in record.getMessage()]
    assert len(said) == 1
    assert str(folder) in said[0]
    assert "others wait for its session" in said[0]
    assert "lock_folder=" in said[0]


@pytest.mark.parametrize("wrong", [5, "", b""])
def test_what_is_no_folder_is_refused(memory: str, wrong: object) -> None:
    with pytest.raises(ConfigError, match="lock_folder is"):
        pares.Member(memory, group="g", lock_folder=wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

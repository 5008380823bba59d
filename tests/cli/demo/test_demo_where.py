"""Where the demo puts its log: what can be said without a broker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli_log import pares

from pares.core.errors import ConfigError
from pares.demo.location import check, fresh_topic, prepared, with_topic
from pares.demo.screen import Silent

HIDE = """\
import importlib.abc, sys
class Hide(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "confluent_kafka":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
"""


def test_a_topic_takes_its_place_in_a_url() -> None:
    assert with_topic("kafka://a:1,b:2", "t") == "kafka://a:1,b:2/t"
    assert with_topic("kafka://a:1/?config=f&replication=1", "t") == "kafka://a:1/t?config=f&replication=1"
    assert with_topic("kafka://a:1/old?timeout=2", "") == "kafka://a:1?timeout=2"


def test_names_of_topics_are_never_the_same() -> None:
    assert len({fresh_topic() for _ in range(100)}) == 100


def test_a_file_ledger_goes_with_the_folder_and_a_named_one_stays(tmp_path: Path) -> None:
    with prepared(None, tmp_path, Silent()) as where:
        assert where.url == f"file://{tmp_path}/ledger"
        assert (where.kept, where.fresh) == (False, True)
    with prepared("sqlite:///kept.db", tmp_path, Silent()) as where:
        assert (where.url, where.kept, where.fresh) == ("sqlite:///kept.db", True, False)


@pytest.mark.parametrize("url", ["memory://x", "kafak", "nonsense://x?a=1&a=2"])
def test_what_can_not_be_a_ledger_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError):
        check(url)


@pytest.mark.parametrize("ledger", ["kafka", "kafka://127.0.0.1:9"])
def test_without_the_client_it_says_what_to_install(tmp_path: Path, ledger: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDE)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    ran = pares("demo", "--no-audit", "--ledger", ledger, env={"PYTHONPATH": path})
    assert ran.code == 1
    assert "pip install 'pares[kafka]'" in ran.err
    assert "Traceback" not in ran.err


def test_where_no_broker_is_it_says_so(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    ran = pares("demo", "--no-audit", "--ledger", "kafka://127.0.0.1:1", env={"TMPDIR": str(tmp_path)})
    assert ran.code == 1
    assert "no broker answers at 127.0.0.1:1" in ran.err
    assert "--ledger kafka starts one" in ran.err
    assert "Traceback" not in ran.err
    assert list(tmp_path.iterdir()) == []

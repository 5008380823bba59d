"""Audits of Kafka topics: the same verdicts as on SQLite, whatever else is in the topic, however it is reached."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from planted import plant_all
from scribe import BASE, Scribe, story

from kafka_tools import PATIENCE, client, new_topic, write
from pares.core.errors import ConfigError, LedgerGap, LedgerUnavailable
from pares.core.wire import records as r
from pares.dev import Kafka, Security
from pares.ledger import open as open_ledger
from pares.spark import logs, reading
from pares.spark.audit import audit
from pares.spark.facts import cuts, spread, tasks
from pares.spark.report import write_report
from pares.spark.result import AuditResult
from pares.spark.session import log_file
from pares.spark.source import LedgerSource
from planted_secret import SECRET

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def _same(one: AuditResult, two: AuditResult) -> None:
    assert one.promises == two.promises
    assert one.summary == two.summary
    assert one.exit_code == two.exit_code
    assert one.tables.keys() == two.tables.keys()
    for name in one.tables:
        assert one.rows(name) == two.rows(name), name


def _load(spark: SparkSession, url: str, **options: Any) -> DataFrame:
    spark.dataSource.register(LedgerSource)
    reader = spark.read.format("pares").option("url", url)
    for key, value in options.items():
        reader = reader.option(key, str(value))
    return reader.load()


def test_a_lawful_history_gets_the_verdict_that_it_gets_on_sqlite(
    tmp_path: Path, spark: SparkSession, kafka: Kafka
) -> None:
    log = story(3, roles=30, members=8, steps=600)
    on_kafka = audit(log.save_kafka(kafka), "g", spark=spark)
    _same(on_kafka, audit(log.save(tmp_path / "l.db"), "g", spark=spark))
    assert on_kafka.exit_code == 0
    assert len(on_kafka.rows("terms")) == len(log.truths) > 100


def test_what_is_planted_is_found_and_bad_records_stop_nothing(
    tmp_path: Path, spark: SparkSession, kafka: Kafka
) -> None:
    plant = plant_all()
    on_kafka = audit(plant.log.save_kafka(kafka), "g", spark=spark, faults=plant.faults)
    _same(on_kafka, audit(plant.log.save(tmp_path / "l.db"), "g", spark=spark, faults=plant.faults))
    assert on_kafka.exit_code == 3
    (overlap,) = [row for row in on_kafka.rows("overlaps") if row["role"] == "together"]
    assert (overlap["to_ms"] - overlap["from_ms"], overlap["certain"]) == (30, True)
    assert [row["offset"] for row in on_kafka.rows("bad_records")] == plant.bad


def test_a_stale_write_is_found(tmp_path: Path, spark: SparkSession, kafka: Kafka) -> None:
    log = Scribe()
    log.role("r")
    term = log.claim(log.join("a"), "r")
    log.lead(term)
    log.sleep(100)
    log.stop(term, "asked")
    after = log.transfer(term, log.join("b"), "asked", "handover")
    log.lead(after)
    rows = tmp_path / "writes.jsonl"
    tokens = [term.token, after.token, term.token]
    rows.write_text("".join(json.dumps({"role": "r", "token": t, "at_ms": log.now}) + "\n" for t in tokens))
    result = audit(log.save_kafka(kafka), "g", writes=rows, spark=spark)
    assert [(row["token"], row["seen"]) for row in result.rows("sink_findings") if row["rule"] == "stale"] == [
        (term.token, after.token)
    ]
    assert result.exit_code == 3


def test_what_others_have_put_into_the_topic_is_counted_or_passed_over(spark: SparkSession, kafka: Kafka) -> None:
    """Other people's records, one without a value, an aborted transaction, and the holes that transactions leave."""
    log = Scribe()
    log.role("r")
    term = log.claim(log.join("a"), "r")
    topic = new_topic(kafka, settings={"message.timestamp.type": "CreateTime", "retention.ms": "-1"})
    times = [at for _, at, _ in log.entries]
    write(kafka, topic, [payload for _, _, payload in log.entries], times=times)
    strange = write(kafka, topic, [b"hello", None, b'{"v":1,"k":"beat"}'])
    producer = Producer({**client(kafka), "transactional.id": topic})
    producer.init_transactions(PATIENCE)
    for ended in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"in a transaction", partition=0)
        producer.flush(PATIENCE)
        ended(PATIENCE)
    log.sleep(1)
    at = strange[-1] + 1 + 4  # each transaction is a record and a marker
    stop = r.Did(v=1, g="g", m="a~0", n=3, b=BASE, s=250, seat=("r", 0), token=term.token, what="lead", at=log.now)
    assert write(kafka, topic, [r.encode(stop)], times=[log.now]) == [at]
    result = audit(kafka.topic_url(topic), "g", spark=spark)
    assert [row["offset"] for row in result.rows("bad_records")] == [*strange, strange[-1] + 1, strange[-1] + 3]
    assert [(row["token"], row["from_ms"]) for row in result.rows("terms")] == [(term.token, log.now)]
    assert result.summary["records_to"] == at
    assert result.exit_code == 0
    rows = _load(spark, kafka.topic_url(topic), splits=3).select("offset").collect()
    assert sorted(row["offset"] for row in rows) == [*range(strange[-1] + 2), strange[-1] + 3, at]


def test_read_in_ranges_at_once_it_is_the_same(
    spark: SparkSession, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = story(4, roles=20, steps=300)
    member = next(term.member for term in log.truths if term.end is None)
    for _ in range(12):
        log.snapshot(member)
        for _ in range(100):
            log.sleep(20)
            log.beat(member)
    url = log.save_kafka(kafka)
    rows = _load(spark, url, splits=3, envelope="false")
    assert rows.rdd.getNumPartitions() == 3
    found = [(row["offset"], row["timestamp_ms"], bytes(row["payload"])) for row in rows.sort("offset").collect()]
    assert found == log.entries
    at_once = audit(url, "g", spark=spark)
    monkeypatch.setattr(reading, "PER_RANGE", 300)
    monkeypatch.setattr(reading, "SMALL", 0)  # by Spark's workers, as a long log is
    monkeypatch.setattr(cuts, "LEAD_IN", 30)
    given: list[list[tasks.Task]] = []

    def counted(session: SparkSession, made: list[tasks.Task]) -> Any:
        given.append(made)
        return tasks.run(session, made)

    monkeypatch.setattr(spread, "run", counted)
    _same(audit(url, "g", spark=spark, engine="python"), at_once)
    assert len(given[0]) >= 2


def test_what_comes_after_the_end_at_the_start_is_left_out(spark: SparkSession, kafka: Kafka) -> None:
    log = story(5, roles=5, steps=50)
    url = log.save_kafka(kafka)
    frame = _load(spark, url, start=10, end=20)
    with closing(open_ledger(url)) as ledger:
        ledger.append(b"late")
    assert [row["offset"] for row in frame.select("offset").collect()] == list(range(10, 20))


def test_a_beginning_that_is_deleted_is_said(tmp_path: Path, spark: SparkSession, kafka: Kafka) -> None:
    log = story(5, roles=10, steps=200)
    for _ in range(150):
        log.beat("admin~0")
    log.snapshot("admin~0")
    url = log.save_kafka(kafka)
    assert audit(url, "g", spark=spark).cut_off is None
    upto = log.places[-1]
    with closing(open_ledger(url)) as ledger:
        ledger.trim(upto)
    result = audit(url, "g", spark=spark)
    assert result.exit_code == 0
    assert result.summary["log_from"] == upto <= result.summary["records_from"]
    assert result.cut_off is not None
    assert f"begins at offset {upto}" in result.cut_off
    assert result.to_json()["cut_off"] == result.cut_off
    assert result.cut_off in write_report(result, tmp_path / "report.html").read_text()


def test_a_beginning_that_goes_while_it_is_read_is_read_again(
    spark: SparkSession, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = story(5, roles=10, steps=200)
    for _ in range(150):
        log.beat("admin~0")
    log.snapshot("admin~0")
    url = log.save_kafka(kafka)
    look, places = reading.Reading.look, [log.places[-1]]

    def then_it_goes(self: reading.Reading, *of: Any, **where: bool) -> None:
        look(self, *of, **where)
        if places:
            with closing(open_ledger(url)) as ledger:
                ledger.trim(places.pop())

    monkeypatch.setattr(reading.Reading, "look", then_it_goes)
    monkeypatch.setattr(reading, "SMALL", 0)  # by Spark's workers, whose errors come back as text
    result = audit(url, "g", spark=spark, engine="python")
    assert result.summary["log_from"] == log.places[-1]
    assert result.exit_code == 0
    monkeypatch.setattr(reading, "TRIES", 1)
    places.append(log.places[-1] + 1)
    with pytest.raises(LedgerGap):
        audit(url, "g", spark=spark)


def test_what_fails_in_spark_is_said_as_pares_says_it(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers go away between the look and the reading."""
    look = reading.Reading.look
    log = story(5, roles=5, steps=50)
    with Kafka() as mortal:
        url = log.save_kafka(mortal)

        def then_it_dies(self: reading.Reading, *of: Any, **where: bool) -> None:
            look(self, *of, **where)
            mortal.close()

        monkeypatch.setattr(reading.Reading, "look", then_it_dies)
        monkeypatch.setattr(reading, "SMALL", 0)
        with pytest.raises(LedgerUnavailable, match="no broker answers at") as caught:
            audit(url, "g", spark=spark)
    assert "Traceback" not in str(caught.value)


def test_a_read_that_fails_is_tried_again(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = new_topic(kafka)
    with closing(open_ledger(kafka.topic_url(topic))) as ledger:
        ledger.append_many([b"a", b"b"])
        read, failures = type(ledger).read, [LedgerUnavailable("not now"), LedgerUnavailable("nor now")]

        def fails_first(self: Any, *args: Any, **kwargs: Any) -> Any:
            if failures:
                raise failures.pop()
            return read(self, *args, **kwargs)

        monkeypatch.setattr(type(ledger), "read", fails_first)
        assert [entry.payload for part in logs.entries_of(ledger, 0, 0, 2) for entry in part] == [b"a", b"b"]
        monkeypatch.setattr(logs, "PATIENCE", 0.0)
        failures += [LedgerUnavailable("not now")] * 3
        with pytest.raises(LedgerUnavailable):
            list(logs.entries_of(ledger, 0, 0, 2))


def test_a_topic_that_is_not_there_is_not_made(spark: SparkSession, kafka: Kafka) -> None:
    url = kafka.topic_url("nobody-made-this")
    with pytest.raises(ConfigError, match="there is no topic nobody-made-this"):
        audit(url, "g", spark=spark)
    with pytest.raises(ConfigError, match="there is no topic nobody-made-this"):
        open_ledger(url, readonly=True)
    topic = new_topic(kafka)
    with pytest.raises(ConfigError, match="it has no records of any group"):
        audit(kafka.topic_url(topic), "g", spark=spark)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """TLS, users, and nobody but ann may read."""
    folder = tmp_path_factory.mktemp("tls")
    pem, key = folder / "both.pem", folder / "key.pem"
    command = (
        f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key.name} -out {pem.name} -subj /CN=pares-tests"
    )
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True)
    pem.write_bytes(key.read_bytes() + pem.read_bytes())
    with Kafka(security=Security(users={"ann": SECRET, "admin": "admin-" + SECRET}, certificate=pem)) as kafka:
        yield kafka


def test_through_tls_and_a_password_and_no_secret_shows(tmp_path: Path, spark: SparkSession, guarded: Kafka) -> None:
    log = story(6, roles=5, steps=80)
    url = log.save_kafka(guarded)
    settings = guarded.client("admin")
    secret = settings["sasl.password"]
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    by_file = audit(f"{url}?config={config}", "g", spark=spark, out=tmp_path / "out")
    write_report(by_file, tmp_path / "out" / "report.html")
    by_hand = audit(url, "g", spark=spark, options=settings, out=tmp_path / "more")
    _same(by_file, by_hand)
    assert len(by_file.rows("terms")) == len(log.truths)
    wrong = {**settings, "sasl.password": SECRET}
    with pytest.raises(ConfigError, match="refuse these credentials") as caught:
        audit(url, "g", spark=spark, options=wrong)
    told = [str(caught.value), repr(by_hand), json.dumps(by_hand.to_json(), default=str)]
    for folder in ("out", "more"):
        told += [path.read_bytes().decode("latin-1") for path in (tmp_path / folder).iterdir()]
    spark_log = log_file()
    assert spark_log is not None
    told.append(spark_log.read_text(errors="replace"))
    assert not [text[:200] for text in told if secret in text or SECRET in text]


def test_client_settings_are_for_kafka_only(tmp_path: Path, spark: SparkSession) -> None:
    url = story(6, roles=2, steps=10).save(tmp_path / "l.db")
    with pytest.raises(ConfigError, match="takes no client settings"):
        audit(url, "g", spark=spark, options={"sasl.username": "ann"})

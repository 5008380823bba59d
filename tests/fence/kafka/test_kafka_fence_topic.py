"""The fence's own topic: what it keeps of tokens, through compaction and beside foreign records."""

from __future__ import annotations

import json

from confluent_kafka import Consumer, Producer, TopicPartition
from kafka_fence_tools import Term, topic_of

from kafka_tools import PATIENCE, client
from pares.dev import Kafka
from pares.fence import KafkaFence, kafka_tokens


def test_foreign_records_in_the_fence_s_topic(broker: Kafka, fence: KafkaFence) -> None:
    fence.check(Term("r", 0, 5))
    topic = topic_of(fence)
    producer = Producer(client(broker))
    for value in (b"\xff", b"{}", b"[" * 5000, b'{"group":null,"role":"r","seat":0,"token":1e99,"at_ms":0}'):
        producer.produce(topic, value, b"k", partition=0)
    producer.produce(topic, f'{{"group":null,"role":"r","seat":0,"token":{2**63},"at_ms":0}}', b"k", partition=0)
    producer.flush(PATIENCE)
    assert fence.seen("r") == 5
    fence.check(Term("r", 0, 6))


def test_compaction_keeps_the_highest_token_whatever_comes_after_it(broker: Kafka, fence: KafkaFence) -> None:
    """Records of a seat have keys of their own, so a late lower one is no reason to forget the higher one."""
    topic = topic_of(fence)
    for token in (5, 6, 7):
        fence.check(Term("r", 0, token))
    consumer = Consumer({**client(broker), "group.id": "judge", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    left: dict[bytes, bytes] = {}
    while (message := consumer.poll(PATIENCE)) is not None and message.error() is None:
        left[message.key() or b""] = message.value() or b""
    consumer.close()
    assert {key: value for key, value in left.items() if value}.keys() == {kafka_tokens.key(None, "r", 0, 7)}
    assert kafka_tokens.key(None, "r", 0, 5) in left, "deleted by its successor"


def test_json_of_tokens() -> None:
    passed = kafka_tokens.Passed("g", "r", 0, 5, 17)
    assert kafka_tokens.decode(kafka_tokens.encode(passed)) == passed
    assert json.loads(kafka_tokens.encode(passed)) == {"group": "g", "role": "r", "seat": 0, "token": 5, "at_ms": 17}
    assert kafka_tokens.decode(b"") is None

"""A worker by pyrallel-consumer, which needs Python 3.12: a program of its own, for any interpreter that has that package.

    PYTHON bench/consume/by_pyrallel.py PLAN

One process, with `concurrency` handlers of asyncio, in order by key. It reads the plan and tells its lines as
`bench.consume.work` says, with nothing of pares, which that interpreter need not have.
"""

from __future__ import annotations

import asyncio
import json
import logging
import struct
import sys
import threading
import time
from typing import Any

_ROW = struct.Struct(">QQQQ")
_NUMBER = struct.Struct(">Q")
_telling = threading.Lock()


def stopwatch() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def tell(*words: object) -> None:
    with _telling:
        print(*words, flush=True)


async def run(plan: dict[str, Any], go: threading.Event, over: threading.Event) -> None:
    from pyrallel_consumer.config import (  # pyright: ignore[reportMissingImports]
        ExecutionConfig,
        KafkaConfig,
        ParallelConsumerConfig,
    )
    from pyrallel_consumer.consumer import PyrallelConsumer  # pyright: ignore[reportMissingImports]

    counts = [0, 0]
    pause = plan["handler_ms"] / 1000
    trace = open(plan["trace"], "ab", buffering=0) if plan["trace"] else None  # noqa: SIM115

    async def handle(item: Any) -> None:
        began = stopwatch()
        if not counts[1]:
            counts[1] = began
            tell("did", "-", began, 0)
        if pause:
            await asyncio.sleep(pause)
        if trace is not None:
            trace.write(
                _ROW.pack(
                    int.from_bytes(item.key[1:] or b"0"), _NUMBER.unpack_from(item.payload)[0], began, stopwatch()
                )
            )
        counts[0] += 1
        counts[1] = stopwatch()

    def tick() -> None:
        told = 0
        while not over.wait(plan["tick"]):
            if counts[0] != told:
                told = counts[0]
                tell("did", "-", counts[1], told)

    threading.Thread(target=tick, daemon=True).start()
    execution = ExecutionConfig(max_in_flight=plan["concurrency"] if pause else 1000)
    config = KafkaConfig(
        BOOTSTRAP_SERVERS=[plan["bootstrap"]],
        CONSUMER_GROUP=plan["group"],
        dlq_enabled=False,
        parallel_consumer=ParallelConsumerConfig(execution=execution),
    )
    consumer = PyrallelConsumer(config, handle, plan["topic"])
    tell("ready", "-", stopwatch())
    await asyncio.to_thread(go.wait)
    await consumer.start()
    await asyncio.to_thread(over.wait)
    await consumer.stop()


def main() -> None:
    plan = json.loads(sys.argv[1])
    logging.disable(logging.WARNING)
    go, over = threading.Event(), threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            if line.strip() == "go":
                go.set()
            elif line.strip() == "cpu":
                tell("cpu", time.process_time())
            else:
                break
        over.set()
        go.set()

    threading.Thread(target=listen, daemon=True).start()
    asyncio.run(run(plan, go, over))


if __name__ == "__main__":
    main()

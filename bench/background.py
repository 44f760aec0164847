"""`python -m bench.background PORT TOPIC RECORD_BYTES A_SECOND`: a steady load, on and off.

With each line on its input it begins to write, with the next one it stops, waits until everything
is acknowledged, and says on its output how many records that were in all.
"""

import select
import sys
import time
from typing import Any

from bench.blast import TIMEOUT_S, WrongAnswerError
from bench.contest import values_of

TICK_S = 0.005


def write_until_told(producer: Any, topic: str, value: bytes, a_second: int) -> int:
    """As many records a second, evenly, until there is a line to read: how many it were."""
    begin, written_count = time.perf_counter(), 0
    while not select.select([sys.stdin], [], [], TICK_S)[0]:
        due = int((time.perf_counter() - begin) * a_second)
        for _ in range(due - written_count):
            producer.produce(topic, value)
        written_count = due
        producer.poll(0)
    if producer.flush(TIMEOUT_S):
        raise WrongAnswerError("not everything was written")
    return written_count


def main(port: str, topic: str, record_bytes: str, a_second: str) -> None:
    import confluent_kafka

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 10_000_000,
        }
    )
    producer.list_topics(topic, timeout=TIMEOUT_S)
    value = values_of(int(record_bytes))[0]
    print("ready", flush=True)
    total_count = 0
    while sys.stdin.readline():
        print("going", flush=True)
        total_count += write_until_told(producer, topic, value, int(a_second))
        sys.stdin.readline()
        print(total_count, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The consumer of `bench pipeline`, in a process of its own: how long records were on their way."""

import json
import sys
import time

from subscriptions.kafka_client import KafkaConsumer, TopicPartition, open_client
from xmlbroker.bench.pipeline_load import PUBLISHED


def observe(servers: str, topics: list[str], idle_seconds: float) -> list[float]:
    """The milliseconds from sent to received of all records that come, until none does."""
    consumer = open_client(KafkaConsumer, {"bootstrap_servers": servers})
    partitions = [TopicPartition(topic, 0) for topic in topics]
    consumer.assign(partitions)
    consumer.seek_to_end(*partitions)
    for partition in partitions:
        consumer.position(partition)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    spent: list[float] = []
    last = time.monotonic()
    began = False
    while time.monotonic() - last < (idle_seconds if began else 60.0):
        for records in consumer.poll(timeout_ms=50).values():
            now = time.time_ns()
            last, began = time.monotonic(), True
            for record in records:
                sent = next(int(value) for name, value in record.headers if name == PUBLISHED)
                spent.append((now - sent) / 1e6)
    consumer.close()
    return spent


def main() -> None:
    """`python -m xmlbroker.bench.pipeline_observer SERVERS IDLE TOPIC…`."""
    servers, idle, *topics = sys.argv[1:]
    spent = sorted(observe(servers, topics, float(idle)))
    figures = {
        "records": len(spent),
        "p50": spent[len(spent) // 2] if spent else None,
        "p99": spent[len(spent) * 99 // 100] if spent else None,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()

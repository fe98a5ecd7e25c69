"""The load of `bench pipeline`, in a process of its own: messages at a rate, each with its time."""

import json
import sys
import time

from subscriptions.kafka_client import KafkaProducer, open_client
from xmlbroker.bench import books

PUBLISHED = "published-ns"
"""The header with the moment that a message was sent at; jobs pass it on."""

_TOGETHER = 5
"""So many are sent one after the other: to wake up for each would cost more than sending it."""


def publish(
    servers: str, topic: str, count: int, *, values: int, rate: float = 0, seed: int = 1
) -> float:
    """Publish so many messages, at so many a second (0: as fast as can be); the seconds it took."""
    messages = books.feed_messages(min(count, 2_000), values, seed)
    producer = open_client(KafkaProducer, {"bootstrap_servers": servers}, linger_ms=2)
    started = time.perf_counter()
    for number in range(count):
        if rate and number % _TOGETHER == 0:
            ahead = started + number / rate - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
        header = (PUBLISHED, str(time.time_ns()).encode())
        producer.send(topic, messages[number % len(messages)], headers=[header])
    producer.flush()
    producer.close()
    return time.perf_counter() - started


def main() -> None:
    """`python -m xmlbroker.bench.pipeline_load SERVERS TOPIC COUNT VALUES RATE SEED`."""
    servers, topic, count, values, rate, seed = sys.argv[1:]
    seconds = publish(
        servers, topic, int(count), values=int(values), rate=float(rate), seed=int(seed)
    )
    sys.stdout.write(json.dumps({"seconds": seconds}) + "\n")


if __name__ == "__main__":
    main()

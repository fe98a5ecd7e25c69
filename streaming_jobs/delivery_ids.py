"""The ids of deliveries: by them a subscriber knows what came twice.

An id is a function of the source record, the subscription and its version, and of nothing else: the
same whenever and wherever it is made. It has two halves, since a message goes to many subscriptions
and a subscription gets many messages: each half is hashed once. The half of the source has 96 bits,
so that no two of any number of messages are likely to meet.
"""

from binascii import hexlify
from hashlib import blake2b

from streaming_jobs.snapshot import Entry

_SOURCE_BYTES, _SUBSCRIPTION_BYTES = 12, 8

LENGTH = 2 * (_SOURCE_BYTES + _SUBSCRIPTION_BYTES)
"""The characters of an id."""


def id_of_source(place: bytes) -> bytes:
    """The first half, for a record at `topic/partition/offset`."""
    return hexlify(blake2b(place, digest_size=_SOURCE_BYTES).digest())


def id_of_subscription(entry: Entry) -> bytes:
    """The second half."""
    identity = f"{entry.name}\n{entry.version}".encode()
    return hexlify(blake2b(identity, digest_size=_SUBSCRIPTION_BYTES).digest())

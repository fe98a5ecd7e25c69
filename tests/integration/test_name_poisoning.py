"""A thread whose name dictionary is filled by hostile messages: the rest of the traffic goes on."""

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.documents import parse_message, parsing
from broker.errors import MessageError


class Survived(NamedTuple):
    """What became of a thread that was attacked, and of its process."""

    elements: int
    is_worn: bool
    megabytes: int


def hostile_message(size: int) -> bytes:
    digits = os.urandom(size // 2).hex()
    names = (digits[at : at + 20] for at in range(0, len(digits), 20))
    return b"<r>" + b"".join(b"<n%s/>" % name.encode() for name in names) + b"</r>"


@pytest.mark.slow
def test_name_poisoning_is_survived() -> None:
    """200 messages of 1 MB with new names, then one with names never seen; in a process where
    nothing else takes memory.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        survived = processes.submit(attacked).result()
    assert survived.elements == 101
    assert survived.is_worn
    assert survived.megabytes < 400, "what a thread learned goes with it"


def attacked() -> Survived:
    seen = []

    def attack() -> None:
        for _ in range(200):
            with pytest.raises(MessageError) as caught:
                parse_message(hostile_message(1_000_000))
            assert caught.value.code == "too-many-names"
        message = parse_message(hostile_message(2_000))
        seen.append((message.last, parsing.thread_is_worn()))

    before = resident_megabytes()
    thread = threading.Thread(target=attack)
    thread.start()
    thread.join()
    ((elements, is_worn),) = seen
    return Survived(elements, is_worn, resident_megabytes() - before)


def resident_megabytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4 // 1024

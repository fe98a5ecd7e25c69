"""Torn checkpoints (F11), and two jobs on one (F14)."""

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from streaming_jobs.checkpoint_lock import CheckpointError
from streaming_jobs.kill_points import KillPoint
from tests.faults.bench import Bench, crash_at, refusal_of


def newest(directory: Path) -> Path:
    return max(directory.glob("[0-9]*"), key=lambda each: int(each.stem))


def tear(file: Path, content: Callable[[bytes], bytes]) -> None:
    """Change a file and, as whoever restores a part of a disk would, not its checksum."""
    file.write_bytes(content(file.read_bytes()))
    checksum = file.with_name(f".{file.name}.crc")
    checksum.unlink(missing_ok=True)


TORN: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "offsets cut short": ("offsets", lambda data: data[: len(data) // 2]),
    "offsets empty": ("offsets", lambda _: b""),
    "offsets of zeros": ("offsets", lambda data: bytes(len(data))),
    "offsets of the wrong form": ("offsets", lambda data: data.replace(b"{", b"[")),
    "commits empty": ("commits", lambda _: b""),
    "commits of zeros": ("commits", lambda data: bytes(len(data))),
    "metadata cut short": ("metadata", lambda data: data[: len(data) // 2]),
    "metadata of zeros": ("metadata", lambda data: bytes(len(data))),
    "pin cut short": ("xmlbroker-pins", lambda data: data[: len(data) // 2]),
    "pin empty": ("xmlbroker-pins", lambda _: b""),
    "pin of another form": ("xmlbroker-pins", lambda _: b'{"version": null}'),
}


def test_a_torn_checkpoint_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """F11: with a clear message, and nothing is skipped: mended, it goes on where it stopped."""
    bench.subscribe_some(3)
    crash_at(monkeypatch, KillPoint.WRITTEN, 2)
    with bench.job(max_messages_per_batch=20) as job:
        bench.publish(40)
        job.await_end()
    monkeypatch.undo()
    bench.scenario.batches.collect()
    written = total_written(bench)
    codes = {}
    for what, (place, content) in TORN.items():
        file = bench.checkpoint / place
        if file.is_dir():
            file = newest(file)
        checksum = file.with_name(f".{file.name}.crc")
        whole = file.read_bytes()
        sum_before = checksum.read_bytes() if checksum.exists() else None
        tear(file, content)
        refusal = refusal_of(bench.job())
        print(f"{what}: {refusal}")
        codes[what] = refusal.code
        file.write_bytes(whole)
        if sum_before is not None:
            checksum.write_bytes(sum_before)
    assert set(codes.values()) == {"torn-checkpoint", "torn-pin"}, codes
    assert {what for what, code in codes.items() if code == "torn-pin"} == {
        what for what in TORN if what.startswith("pin")
    }
    assert total_written(bench) == written
    with bench.job() as job:
        bench.scenario.come_to_rest(job)
    bench.scenario.verify(repeated_batches=1)


def total_written(bench: Bench) -> int:
    traffic = bench.traffic
    outputs = [each for each in traffic.topics() if ".out." in each or "dead" in each]
    return sum(traffic.ends(outputs).values())


@pytest.mark.slow
def test_the_command_says_that_the_checkpoint_is_torn(bench: Bench) -> None:
    with bench.job() as job:
        bench.publish(20)
        bench.scenario.come_to_rest(job)
    tear(newest(bench.checkpoint / "offsets"), lambda data: data[: len(data) // 2])
    with bench.process() as process:
        process.await_ready()
        assert process.await_end() == 1
        assert "torn-checkpoint" in process.log()
        assert "Nothing was skipped" in process.log()
        assert "Traceback" not in process.log()


def test_a_second_job_on_the_same_checkpoint(bench: Bench) -> None:
    """F14: it refuses, and the first goes on."""
    bench.subscribe_some(3)
    with bench.job() as job:
        bench.publish(20)
        second: AbstractContextManager[object] = bench.job()
        with pytest.raises(CheckpointError) as refused, second:
            pass
        assert refused.value.code == "checkpoint-in-use"
        assert str(os.getpid()) in refused.value.detail
        bench.publish(20)
        bench.scenario.come_to_rest(job)
    bench.scenario.verify()


@pytest.mark.slow
def test_the_command_says_that_the_checkpoint_is_in_use(bench: Bench) -> None:
    with bench.job() as job, bench.process() as process:
        assert not process.await_ready()
        assert process.await_end() == 1
        assert "checkpoint-in-use" in process.log()
        bench.publish(20)
        bench.scenario.come_to_rest(job)
    bench.scenario.verify()
    assert json.loads((bench.checkpoint / "xmlbroker.lock").read_text()) == os.getpid()

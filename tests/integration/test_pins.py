"""Pins on this machine and through Hadoop, whose own way to local files stands for any storage."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming_jobs.pins import DIRECTORY, Pin, PinError, Pins
from streaming_jobs.storage import HadoopStorage, LocalStorage, StorageError, storage_of
from subscriptions.model import State, Status, SubscriptionRecord

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def refusal(version: int) -> Status:
    return Status(State.REJECTED, version, NOW, {"code": "x"}, 1, SubscriptionRecord(query="//é"))


PIN = Pin(7, "digest", NOW.isoformat(), ("away",), {b"a/b": refusal(6)})


@pytest.fixture(params=["local", "hadoop"])
def pins(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Pins:
    place = tmp_path if request.param == "local" else f"file://{tmp_path}/"
    storage = storage_of(spark, place, DIRECTORY)
    assert isinstance(storage, LocalStorage if request.param == "local" else HadoopStorage)
    return Pins(storage)


def local_pins(checkpoint: Path) -> Pins:
    return Pins(LocalStorage(checkpoint / DIRECTORY))


def test_what_is_kept_is_there_when_the_batch_comes_again(pins: Pins, tmp_path: Path) -> None:
    assert pins.read(0) is None
    pins.write(0, PIN)
    assert pins.read(0) == PIN
    assert pins.read(1) is None
    kept = tmp_path / "xmlbroker-pins"
    assert not list(kept.glob("*.tmp"))
    for batch in range(1, 102):
        pins.write(batch, PIN)
    assert pins.read(0) is None
    assert pins.read(1) is None
    assert pins.read(2) == pins.read(101) == PIN
    names = {each.name for each in kept.iterdir() if not each.name.startswith((".", "refusal-"))}
    assert names == {f"{batch}.json" for batch in range(2, 102)}


def test_what_is_prepared_later_is_for_later_batches(pins: Pins) -> None:
    later = replace(PIN, version=8)
    pins.prepare(PIN)
    pins.write(0, PIN)
    pins.prepare(later)
    pins.write(1, later)
    pins.write(2, PIN)  # a batch that had taken it before
    assert [pins.read(batch) for batch in range(3)] == [PIN, later, PIN]


def test_pins_are_the_same_after_a_restart(pins: Pins, tmp_path: Path, spark: SparkSession) -> None:
    pins.prepare(PIN)
    pins.write(0, PIN)
    again = local_pins(tmp_path) if pins._storage.has_links else pins
    again.prepare(replace(PIN, version=8))
    again.write(1, replace(PIN, version=8))
    assert again.read(0) == PIN
    left = {each.name for each in (tmp_path / "xmlbroker-pins").glob(".ready-*")}
    assert len(left) <= 1


def test_a_batch_has_its_own_pin_whatever_is_prepared_meanwhile(tmp_path: Path) -> None:
    pins = local_pins(tmp_path)
    made = [replace(PIN, version=number) for number in range(60)]

    def prepare_all() -> None:
        for each in made * 3:
            pins.prepare(each)

    with ThreadPoolExecutor(1) as follower:
        prepared = follower.submit(prepare_all)
        for batch, pin in enumerate(made):
            pins.write(batch, pin)
        prepared.result()
    assert [pins.read(batch) for batch in range(60)] == made


def test_who_only_reads_takes_nothing_away(tmp_path: Path) -> None:
    pins = local_pins(tmp_path)
    pins.prepare(PIN)
    assert local_pins(tmp_path).read(0) is None
    pins.write(0, PIN)
    assert local_pins(tmp_path).read(0) == PIN


def test_what_is_prepared_is_written_again_if_it_is_gone(tmp_path: Path) -> None:
    pins = local_pins(tmp_path)
    pins.prepare(PIN)
    for each in (tmp_path / "xmlbroker-pins").glob(".ready-*"):
        each.unlink()
    pins.write(0, PIN)
    assert pins.read(0) == PIN


def test_without_links_to_files_each_batch_has_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(_source: object, _target: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    pins = local_pins(tmp_path)
    pins.write(0, PIN)
    pins.write(1, replace(PIN, version=8))
    assert pins.read(0) == PIN
    assert pins.read(1) == replace(PIN, version=8)


def test_what_a_crash_left_unfinished_is_written_over(pins: Pins, tmp_path: Path) -> None:
    (tmp_path / "xmlbroker-pins" / "3.json.tmp").write_text('{"vers')
    assert pins.read(3) is None
    pins.write(3, PIN)
    assert pins.read(3) == PIN


def test_a_torn_pin_is_an_error(pins: Pins, tmp_path: Path) -> None:
    (tmp_path / "xmlbroker-pins" / "3.json").write_text('{"vers')
    with pytest.raises(PinError) as raised:
        pins.read(3)
    assert raised.value.code == "torn-pin"


def test_a_pin_that_hadoop_can_not_keep_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    pins = Pins(storage_of(spark, f"file://{tmp_path}", DIRECTORY))
    (tmp_path / "xmlbroker-pins" / "3.json.tmp").mkdir()
    with pytest.raises(StorageError) as raised:
        pins.write(3, PIN)
    assert raised.value.code == "not-kept"


def refusals(checkpoint: Path) -> set[Path]:
    return set((checkpoint / DIRECTORY).glob("refusal-*"))


def test_a_refusal_is_written_once(pins: Pins, tmp_path: Path) -> None:
    """They may be thousands, of 64 kB each, and a pin may change five times a second."""
    kept: dict[bytes, Status] = {}
    written: dict[Path, int] = {}
    for number in range(20):
        kept = {**kept, f"a/{number}".encode(): refusal(number)}
        pin = replace(PIN, version=number, kept=kept)
        pins.prepare(pin)
        pins.write(number, pin)
        for file, changed in written.items():
            assert file.stat().st_mtime_ns == changed
        written = {each: each.stat().st_mtime_ns for each in refusals(tmp_path)}
        assert len(written) == number + 1
    assert pins.read(19) == pin
    assert max(each.stat().st_size for each in (tmp_path / DIRECTORY).glob("*.json")) < 2_000


def test_refusals_go_when_no_pin_has_them(pins: Pins, tmp_path: Path) -> None:
    made = []
    for number in range(450):
        made.append(replace(PIN, version=number, kept={b"a/b": refusal(number)}))
        pins.prepare(made[-1])
        pins.write(number, made[-1 if number % 2 else 0])
        assert len(refusals(tmp_path)) <= 210
    for batch in range(350, 450):
        assert pins.read(batch) == made[batch if batch % 2 else 0]


def test_refusals_of_a_job_that_has_ended(tmp_path: Path) -> None:
    for start in range(0, 450, 50):
        pins = local_pins(tmp_path)
        for number in range(start, start + 50):
            pins.prepare(replace(PIN, version=number, kept={b"a/b": refusal(number)}))
            pins.write(number, replace(PIN, version=number, kept={b"a/b": refusal(number)}))
        assert len(refusals(tmp_path)) <= 210
        assert pins.read(max(0, start - 40)) is not None


@pytest.mark.parametrize("torn", [b"", b'{"state"', None])
def test_a_torn_refusal_is_an_error(tmp_path: Path, torn: bytes | None) -> None:
    local_pins(tmp_path).write(3, PIN)
    (file,) = refusals(tmp_path)
    file.unlink()
    if torn is not None:
        file.write_bytes(torn)
    with pytest.raises(PinError) as raised:
        local_pins(tmp_path).read(3)
    assert raised.value.code == "torn-pin"

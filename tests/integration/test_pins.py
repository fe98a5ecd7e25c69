"""Pins on this machine and through Hadoop, whose own way to local files stands for any storage."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming_jobs.pins import HadoopPins, LocalPins, Pin, PinError, Pins, pins_of

PIN = Pin(7, "digest", "2026-01-01T00:00:00+00:00", ("away",), (("a/b", "{}"),))


@pytest.fixture(params=["local", "hadoop"])
def pins(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Pins:
    made = pins_of(spark, tmp_path if request.param == "local" else f"file://{tmp_path}/")
    assert isinstance(made, LocalPins if request.param == "local" else HadoopPins)
    return made


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
    names = {each.name for each in kept.iterdir() if not each.name.startswith(".")}
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
    again = pins_of(spark, tmp_path) if isinstance(pins, LocalPins) else pins
    again.prepare(replace(PIN, version=8))
    again.write(1, replace(PIN, version=8))
    assert again.read(0) == PIN
    left = {each.name for each in (tmp_path / "xmlbroker-pins").glob(".ready-*")}
    assert len(left) <= 1


def test_a_batch_has_its_own_pin_whatever_is_prepared_meanwhile(tmp_path: Path) -> None:
    pins = LocalPins(tmp_path)
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
    pins = LocalPins(tmp_path)
    pins.prepare(PIN)
    assert LocalPins(tmp_path).read(0) is None
    pins.write(0, PIN)
    assert LocalPins(tmp_path).read(0) == PIN


def test_what_is_prepared_is_written_again_if_it_is_gone(tmp_path: Path) -> None:
    pins = LocalPins(tmp_path)
    pins.prepare(PIN)
    for each in (tmp_path / "xmlbroker-pins").iterdir():
        each.unlink()
    pins.write(0, PIN)
    assert pins.read(0) == PIN


def test_without_links_to_files_each_batch_has_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(_source: object, _target: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    pins = LocalPins(tmp_path)
    pins.write(0, PIN)
    pins.write(1, replace(PIN, version=8))
    assert pins.read(0) == PIN
    assert pins.read(1) == replace(PIN, version=8)


def test_what_a_crash_left_unfinished_is_written_over(pins: Pins, tmp_path: Path) -> None:
    (tmp_path / "xmlbroker-pins" / "3.tmp").write_text('{"vers')
    assert pins.read(3) is None
    pins.write(3, PIN)
    assert pins.read(3) == PIN


def test_a_torn_pin_is_an_error(pins: Pins, tmp_path: Path) -> None:
    (tmp_path / "xmlbroker-pins" / "3.json").write_text('{"vers')
    with pytest.raises(PinError) as raised:
        pins.read(3)
    assert raised.value.code == "torn-pin"


def test_a_pin_that_hadoop_can_not_keep_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    pins = HadoopPins(spark, f"file://{tmp_path}")
    (tmp_path / "xmlbroker-pins" / "3.tmp").mkdir()
    with pytest.raises(PinError) as raised:
        pins.write(3, PIN)
    assert raised.value.code == "pin-not-kept"

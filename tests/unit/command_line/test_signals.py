"""SIGTERM and Ctrl-C while the broker starts."""

import signal

import pytest

from xmlbroker.commands.run import left_by_signals


class Meddling:
    """Interrupted where Python makes a `RuntimeError` of whatever comes up (up to 3.11)."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number

    def __set_name__(self, owner: type, name: str) -> None:
        signal.raise_signal(self._number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_they_end_it_with_status_0_whatever_is_made_of_them(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended, left_by_signals():
        type("Any", (), {"attribute": Meddling(number)})
    assert ended.value.code == 0
    assert signal.getsignal(number) is before


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ZeroDivisionError), left_by_signals():
        _ = 1 // 0

"""Loading by the hundred thousand: what every place that does it has to see to."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Let Python's collector rest while much is made that stays.

    It looks for garbage whenever there is a quarter more than there was, walks over all that was
    loaded, and finds nothing: half of the time of loading a hundred thousand subscriptions.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def keep_loaded() -> None:
    """Have Python's collector pass over all that there is from now on, until `gc.unfreeze`.

    Else it walks over it every now and then, and finds nothing: a tenth of a second for ten
    thousand subscriptions, during which messages wait.
    """
    gc.collect()
    gc.freeze()

"""Run a command that ends when the process that started it ends, even by `kill -9`.

    python -I -S die_with_parent.py PARENT_PID COMMAND ARGUMENT…

It is run as a program of its own, so that no code runs between fork and exec of a process that
has threads, and imports nothing but the standard library, so that it costs some milliseconds.

On Linux the kernel does it: a signal is due when the parent ends, and that survives exec, so the
command takes this process's place. The kernel's parent is the *thread* that forked. Elsewhere this
process stays, and looks every half second whether the parent still lives.
"""

import ctypes
import os
import signal
import subprocess
import sys
from typing import NoReturn

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> NoReturn:
    """Become the command on Linux, watch over it elsewhere."""
    if sys.platform == "linux":
        become(parent, command)
    watch(parent, command)


def become(parent: int, command: list[str]) -> NoReturn:
    """Exec the command with the kernel's word that it gets SIGKILL when the parent ends.

    SIGTERM would be kinder, but a Kafka that can't shut down in order would live on, and it must
    recover from SIGKILL anyway.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # it ended before the call
        sys.exit(1)
    os.execv(command[0], command)


def watch(parent: int, command: list[str]) -> NoReturn:
    """Run the command until it or the parent ends; signals to the group are for the command."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    process = subprocess.Popen(command)
    while os.getppid() == parent:
        try:
            sys.exit(process.wait(timeout=0.5))
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    sys.exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

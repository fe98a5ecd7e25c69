"""Ports of this machine that nobody listens on."""

import socket

HOST = "127.0.0.1"


def choose_ports(port: int, controller_port: int) -> tuple[int, int]:
    """These ports where they are free, else other ones; a JVM takes seconds to find out."""
    chosen = []
    reserved = []
    for wanted in (port, controller_port):
        probe = _bind(wanted) or _bind(0)
        assert probe is not None
        reserved.append(probe)  # until both are chosen, or they could be the same
        chosen.append(probe.getsockname()[1])
    for probe in reserved:
        probe.close()
    return chosen[0], chosen[1]


def is_free(port: int) -> bool:
    """Whether one could listen on a port now."""
    probe = _bind(port)
    if probe:
        probe.close()
    return probe is not None


def _bind(port: int) -> socket.socket | None:
    probe = socket.socket()
    # As Kafka does: connections that ended a moment ago don't keep a port.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((HOST, port))
    except OSError:
        probe.close()
        return None
    return probe

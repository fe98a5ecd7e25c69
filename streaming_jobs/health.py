"""The job's HTTP endpoints: `/metrics` for Prometheus, `/live` and `/ready` for schedulers, and
`/top` for `xmlbroker top`.
"""

import json
import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from broker.errors import BrokerError

_LOGGER = logging.getLogger(__name__)

_MOST_CONNECTIONS = 32
_IDLE_SECONDS = 10.0
"""A connection has a thread, and who opens it may forget it."""

Check = Callable[[], str | None]
"""None if all is well, else the reason why not."""


def _asked(check: Check) -> str | None:
    """What a check says; one that can't be made says no, such as one that asks a JVM that ended."""
    try:
        return check()
    except Exception as error:  # whatever it is, the answer is no
        _LOGGER.debug("a check failed", exc_info=error)
        return f"it can't be found out: {type(error).__name__}"


class _Server(ThreadingHTTPServer):
    """Says nothing of clients that leave before they have their answer. Those that are too many
    have none.
    """

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """On a thread of its own, if there may be one more."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """There is room for another one when it has its answer."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        """Without a traceback among the lines of the log."""
        _LOGGER.debug("%s was not answered", client_address, exc_info=True)


class HealthServer:
    """A small server on a thread of its own."""

    def __init__(
        self,
        registry: CollectorRegistry,
        live: Check,
        ready: Check,
        top: Callable[[], dict[str, Any]],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        checks = {"/live": live, "/ready": ready}

        class Handler(BaseHTTPRequestHandler):
            timeout = _IDLE_SECONDS

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    self.answer(200, CONTENT_TYPE_LATEST, generate_latest(registry))
                elif path in checks:
                    reason = _asked(checks[path])
                    state = {"ok": reason is None, "reason": reason}
                    status = 200 if reason is None else 503
                    self.answer(status, "application/json", json.dumps(state).encode() + b"\n")
                elif path == "/top":
                    shown = {**top(), "not_ready": _asked(ready)}
                    self.answer(200, "application/json", json.dumps(shown).encode() + b"\n")
                else:
                    self.answer(404, "text/plain", b"/metrics, /live, /ready, /top\n")

            def answer(self, status: int, content_type: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Requests of a scraper every few seconds are no news."""

        try:
            self._server = _Server((host, port), Handler)
        except OSError as error:
            raise BrokerError(
                "metrics-address",
                f"metrics can't be offered at {host}:{port}: {error.strerror}; the settings "
                "job.metrics_host and job.metrics_port say where, and port 0 takes one that is "
                "free",
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

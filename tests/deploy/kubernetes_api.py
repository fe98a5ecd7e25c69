"""As much of Kubernetes' API server as Spark's driver asks for; a pod is a process of this machine.

It shows what the driver asks, so that a test can compare it with the rights it has, and runs what
the pods say: command, arguments, variables. It knows nothing of images, networks and nodes.
"""

import json
import subprocess
import threading
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

from tests.deploy.project import search_path

Resource = dict[str, Any]


class Asked(NamedTuple):
    """A request, as a role speaks of it."""

    verb: str
    resource: str


class KubernetesApi:
    """A server on the loopback address. `image_root` takes the place of the image's /opt/xmlbroker,
    `volumes` that of what pods mount.
    """

    def __init__(self, image_root: Path, volumes: Path, driver: Resource) -> None:
        self.asked: set[Asked] = set()
        self.pods: dict[str, Resource] = {driver["metadata"]["name"]: driver}
        self.made: dict[str, Resource] = {}
        """All pods that the driver made, also those that it has removed."""
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._image_root = image_root
        self._volumes = volumes
        self._lock = threading.Lock()
        self._ending = threading.Event()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                api.get(self)

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                api.post(self, json.loads(self.rfile.read(size)))

            def do_DELETE(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                api.delete(self)

            def answer(self, status: int, body: Resource) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        for process in self.processes.values():
            process.kill()
            process.wait()

    # Requests

    def get(self, handler: Any) -> None:  # noqa: ANN401 - the class is made above
        resource, name, options = self._parse(handler.path)
        if "watch" in options:
            self._note("watch", resource)
            if "upgrade" in handler.headers.get("Connection", "").lower():
                # No WebSocket here: the client then reads a stream.
                handler.answer(503, {"kind": "Status", "code": 503})
                return
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Connection", "close")
            handler.end_headers()
            handler.close_connection = True
            self._ending.wait()
        elif name is None:
            self._note("list", resource)
            with self._lock:
                handler.answer(200, {"kind": "PodList", "apiVersion": "v1", "items": self._list()})
        else:
            self._note("get", resource)
            found = self.pods.get(name) if resource == "pods" else None
            handler.answer(200 if found else 404, found or {"kind": "Status", "code": 404})

    def post(self, handler: Any, body: Resource) -> None:  # noqa: ANN401
        resource, _, _ = self._parse(handler.path)
        self._note("create", resource)
        if resource == "pods":
            name = body["metadata"]["name"]
            body["metadata"]["uid"] = str(uuid.uuid4())
            body["status"] = {"phase": "Running", "podIP": "127.0.0.1"}
            with self._lock:
                self.pods[name] = self.made[name] = body
                self.processes[name] = self._start(body)
        handler.answer(201, body)

    def delete(self, handler: Any) -> None:  # noqa: ANN401
        resource, name, _ = self._parse(handler.path)
        self._note("deletecollection" if name is None else "delete", resource)
        with self._lock:
            for each in [name] if name is not None else list(self.processes):
                if each in self.processes:
                    self.processes[each].terminate()
                    self.pods.pop(each, None)
        handler.answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def _note(self, verb: str, resource: str) -> None:
        self.asked.add(Asked(verb, resource))

    def _list(self) -> list[Resource]:
        return [pod for name, pod in self.pods.items() if name in self.processes]

    @staticmethod
    def _parse(path: str) -> tuple[str, str | None, Mapping[str, list[str]]]:
        """`/api/v1/namespaces/N/RESOURCE[/NAME]?OPTIONS`."""
        url = urlsplit(path)
        parts = url.path.strip("/").split("/")
        assert parts[:3] == ["api", "v1", "namespaces"], path
        return parts[4], parts[5] if len(parts) > 5 else None, parse_qs(url.query)

    # Pods

    def _start(self, pod: Resource) -> subprocess.Popen[bytes]:
        (container,) = pod["spec"]["containers"]
        fields = {"status.podIP": "127.0.0.1", "metadata.name": pod["metadata"]["name"]}
        environment = {"PATH": search_path()}
        for variable in container["env"]:
            source = variable.get("valueFrom")
            value = variable.get("value", "")
            environment[variable["name"]] = (
                value if source is None else fields[source["fieldRef"]["fieldPath"]]
            )
        directory = self._volumes / pod["metadata"]["name"]
        directory.mkdir(parents=True)
        environment["SPARK_LOCAL_DIRS"] = str(directory)
        command = [*container["command"], *container["args"]]
        command[0] = command[0].replace("/opt/xmlbroker", str(self._image_root))
        with (directory / "log").open("wb") as log:
            return subprocess.Popen(
                command, env=environment, cwd="/", stdout=log, stderr=subprocess.STDOUT
            )

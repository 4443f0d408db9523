"""Stand-ins for NVIDIA's management library and for S3."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "samplers" / "nvml_stub.c"


def build_nvml_stub(folder: Path, *defines: str) -> Path:
    """Compile the stub into `folder/libnvidia-ml.so.1` and return the folder.

    `defines` are macros, such as "NO_nvmlDeviceGetPowerUsage". Put the folder into
    LD_LIBRARY_PATH of a new process. Skips the test where there is no gcc.
    """
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc to compile the NVML stub with")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "libnvidia-ml.so.1"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", *(f"-D{name}" for name in defines)]
    subprocess.run([compiler, *flags, "-o", str(target), str(SOURCE), "-lm"], check=True)
    return folder


def stub_environment(folder: Path, **settings: object) -> dict[str, str]:
    """Return the environment in which a new process finds the stub, with `STUB_*` set."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STUB_")}
    environment["LD_LIBRARY_PATH"] = str(folder)
    environment.update({f"STUB_{key}": str(value) for key, value in settings.items()})
    return environment


def write(root: Path, files: dict[str, str]) -> Path:
    """Write files below `root`, with the folders they lie in."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def run_against_stub(folder: Path, code: str, **settings: object) -> Any:
    """Run `code` in a new process that finds the stub; return the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=stub_environment(folder, **settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


KEYS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}


@dataclass
class Store:
    """The proxy's address, and its delay."""

    url: str
    delay_s: float = 0.0

    @property
    def env(self) -> dict[str, str]:
        return {**KEYS, "AWS_ENDPOINT_URL_S3": self.url}


@contextmanager
def proxy(port: int) -> Iterator[Store]:
    """Stand before the server at `port` of localhost."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body go apart: each would wait 40 ms

        def do_GET(self) -> None:
            time.sleep(store.delay_s)
            length = int(self.headers.get("Content-Length") or 0)
            upstream = http.client.HTTPConnection("127.0.0.1", port)
            upstream.request(
                self.command, self.path, self.rfile.read(length), dict(self.headers.items())
            )
            response = upstream.getresponse()
            body = response.read()
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "server", "date"):
                    self.send_header(name, value)
            if not response.getheader("Content-Length"):
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            upstream.close()

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_: object) -> None:
            pass  # a client that went away is what some tests are about

    server = Server(("127.0.0.1", 0), Handler)
    store = Store(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()

"""An instance metadata service and a machine's files, as tests need them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

METADATA = {
    "/latest/meta-data/instance-type": "g5.xlarge",
    "/latest/meta-data/placement/availability-zone": "eu-west-1b",
}
TOKEN_HEADER = "X-aws-ec2-metadata-token"

Answer = tuple[int, str]


@dataclass
class Served:
    """A server's address, and what it was asked: method, path, token and body."""

    url: str
    asked: list[tuple[str, str, str | None, str]] = field(default_factory=list)


@contextlib.contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler, str], Answer]) -> Iterator[Served]:
    """Serve on a port of this machine what `answer` returns for a request and its body."""
    served = Served("")
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            with lock:
                served.asked.append((self.command, self.path, self.headers.get(TOKEN_HEADER), body))
            status, text = answer(self, body)
            data = text.encode("utf-8", "surrogateescape")
            with contextlib.suppress(OSError):  # who asked has gone
                self.send_response(status)
                elsewhere = {"Location": f"{served.url}/elsewhere"} if 300 <= status < 400 else {}
                for name, value in getattr(self, "headers_given", elsewhere).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_HEAD = _answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def imds(request: BaseHTTPRequestHandler, body: str) -> Answer:
    """Answer as an instance with IMDSv2 does: a token first, then what it is asked with it."""
    if request.path == "/latest/api/token":
        if request.command != "PUT":
            return 405, ""
        known = "X-aws-ec2-metadata-token-ttl-seconds" in request.headers
        return (200, "a-token==") if known else (400, "")
    if request.headers.get(TOKEN_HEADER) != "a-token==":
        return 401, ""
    text = METADATA.get(request.path)
    return (404, "") if text is None else (200, text)


def slow(seconds: float) -> Callable[[BaseHTTPRequestHandler, str], Answer]:
    """Answer correctly, but only after so many seconds."""

    def answer(request: BaseHTTPRequestHandler, body: str) -> Answer:
        time.sleep(seconds)
        return imds(request, body)

    return answer


DMI = "sys/devices/virtual/dmi/id"
NITRO = {f"{DMI}/sys_vendor": "Amazon EC2\n", f"{DMI}/product_name": "g4dn.xlarge\n"}
XEN = {f"{DMI}/sys_vendor": "Xen\n", f"{DMI}/bios_version": "4.11.amazon\n"}
LAPTOP = {f"{DMI}/sys_vendor": "LENOVO\n", f"{DMI}/product_name": "20XW\n"}
MEMORY = {"proc/meminfo": "MemTotal: 1000 kB\nSwapTotal: 300 kB\nSwapFree: 100 kB\n"}

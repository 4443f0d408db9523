"""A headless Chromium, driven over its DevTools protocol by the standard library alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def browser() -> str | None:
    """The path of a Chromium or Chrome on this machine, None without one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


START = """
import os, sys
read, write = (os.dup(int(one)) for one in sys.argv[1:3])
while min(read, write) <= 4:
    read, write = os.dup(read), os.dup(write)
os.dup2(read, 3), os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Puts the pipes where the browser expects them: commands at descriptor 3, answers at 4."""


class Tab:
    """One page of the browser: commands go out, events are kept as they come in."""

    def __init__(self, out: int, back: int) -> None:
        self.out, self.back = out, back
        self.session: str | None = None
        self.sent = 0
        self.events: list[dict[str, Any]] = []
        self.rest = b""

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; raises if it is an error."""
        self.sent += 1
        message: dict[str, Any] = {"id": self.sent, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.sent:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def wait_for(self, method: str) -> None:
        """Wait for an event."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next())

    def told(self, method: str) -> list[dict[str, Any]]:
        """The events of a kind so far."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def value(self, expression: str) -> Any:
        """The value of an expression in the page, awaited."""
        answer = self.call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def open(self, page: Path, width: int, height: int = 900) -> None:
        """Open a file at that width, in CSS pixels, and let it come to rest."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.call("Page.navigate", url=page.as_uri())
        self.wait_for("Page.loadEventFired")
        self.value("new Promise(done => setTimeout(done, 150))")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            more = os.read(self.back, 1 << 16)
            assert more, "the browser has gone"
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@contextmanager
def tab(path: str) -> Iterator[Tab]:
    """Start the browser with a profile of its own, and give one tab of it."""
    (to_browser, out), (back, from_browser) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                START,
                str(to_browser),
                str(from_browser),
                path,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        try:
            made = Tab(out, back)
            target = made.call("Target.createTarget", url="about:blank")["targetId"]
            made.session = made.call("Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ]
            for domain in ("Page", "Runtime", "Log", "Network"):
                made.call(f"{domain}.enable")
            yield made
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(out)
            os.close(back)

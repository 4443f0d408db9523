"""The port at which the ranks of a job meet: each leg that is alive needs one of its own.

torchrun with `--standalone` takes a free one by itself; where nothing is said newer
versions do so as well, and older ones take 29500. Another port is written into what
names one: the launcher's arguments, or `MASTER_PORT`. One that the script itself fixes
cannot be changed from outside.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import replace
from pathlib import Path

from trainperf.model import Run
from trainperf.run.launchers import TORCHRUN, accelerate, after, options, replaced, value

MASTER_PORT = "MASTER_PORT"
PORT = ("--master-port", "--master_port")
ENDPOINT = ("--rdzv-endpoint", "--rdzv_endpoint")
OF_ACCELERATE = ("--main_process_port", "--main-process-port")
BACKEND = ("--rdzv-backend", "--rdzv_backend")
NAME = r"""["']MASTER_PORT["']"""
ASKS = re.compile(
    rf"(?:setdefault\(|get\(|getenv\()\s*{NAME}"
    rf"|environ\[\s*{NAME}\s*\](?!\s*=[^=])"
    rf"|{NAME} (?:not )?in "
)
"""A script that takes the port from its environment, or sets it only if there is none."""
SETS = re.compile(rf"environ\[\s*{NAME}\s*\]\s*=[^=]")
URL = re.compile(r"""tcp://[^"'\s{]+:\d""")

FIXED = "two copies of the script would meet at the same port, which {} sets"
UNSEEN = "two copies of the script may meet at the same port: where its ranks do was not seen"


def shared_port(run: Run, launcher: str) -> str:
    """Why two copies of a job cannot be alive together, or nothing.

    `launcher` is what the ranks said had started them.
    """
    scripts = (Path(run.cwd) / word for word in run.command if word.endswith(".py"))
    script, text = next(scripts, None), ""
    if script is not None and script.is_file():
        text = script.read_text(encoding="utf-8", errors="replace")
    at = after(run.command, TORCHRUN)
    if URL.search(text):
        return FIXED.format("the script")
    if at is not None:
        backend = value(run.command, at, BACKEND) or "c10d"
        if backend not in ("c10d", "static"):
            return f"two copies of the script would meet at the same {backend} server"
        return ""
    if accelerate(run.command) is not None:
        return ""
    if launcher == "TF_CONFIG":
        return FIXED.format("TF_CONFIG")
    if launcher == "torchrun":
        return UNSEEN
    if ASKS.search(text):
        return ""
    if SETS.search(text):
        return FIXED.format("the script")
    return "" if MASTER_PORT in {**os.environ, **run.env} else UNSEEN


def with_own_port(run: Run, several: bool = True) -> Run:
    """The same run, with a free port for its ranks to meet at where one can be given.

    torchrun takes a port for a single process as well, where there are not `several`.
    """
    port = free_port()
    at = after(run.command, TORCHRUN)
    if at is not None:
        return replace(run, command=_torchrun_at(run.command, at, port))
    at = accelerate(run.command)
    if at is not None:
        command = run.command
        if value(command, at, OF_ACCELERATE) is not None:
            return replace(run, command=replaced(command, at, OF_ACCELERATE, str(port)))
        word = f"{OF_ACCELERATE[0]}={port}"
        return replace(run, command=(*command[:at], word, *command[at:]))
    if not several:
        return run
    return replace(run, env={**run.env, MASTER_PORT: str(port)})


def free_port() -> int:
    """A TCP port that nobody listens at now."""
    with socket.socket() as sock:
        sock.bind(("", 0))
        return int(sock.getsockname()[1])


def _torchrun_at(command: tuple[str, ...], at: int, port: int) -> tuple[str, ...]:
    """The command with another port, or address with a port, to meet at."""
    if "--standalone" in options(command, at):
        return command
    endpoint = value(command, at, ENDPOINT)
    backend = value(command, at, BACKEND)
    if endpoint is not None:
        if endpoint.endswith(":0"):
            return command
        host = endpoint.rpartition(":")[0] or endpoint
        return replaced(command, at, ENDPOINT, f"{host}:{port}")
    if value(command, at, PORT) is not None and backend in (None, "static"):
        return replaced(command, at, PORT, str(port))
    if backend not in (None, "static"):
        return (*command[:at], f"--rdzv-endpoint=localhost:{port}", *command[at:])
    return (*command[:at], "--standalone", *command[at:])

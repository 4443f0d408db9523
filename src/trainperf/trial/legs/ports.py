"""The port at which the ranks of a job meet: each leg that is alive needs one of its own.

torchrun takes a free one with `--standalone`, whatever else it is told of where to meet. Another
port is written into the arguments of accelerate's launcher, or `MASTER_PORT`. One that the script
itself fixes cannot be changed from outside.
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
STANDALONE = "--standalone"
OF_ACCELERATE = ("--main_process_port", "--main-process-port")
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
    if URL.search(text):
        return FIXED.format("the script")
    if after(run.command, TORCHRUN) is not None or accelerate(run.command) is not None:
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
    command, at = run.command, after(run.command, TORCHRUN)
    if at is not None:
        alone = STANDALONE in options(command, at)
        return run if alone else replace(run, command=_with(command, at, STANDALONE))
    at, port = accelerate(command), free_port()
    if at is not None:
        if value(command, at, OF_ACCELERATE) is not None:
            return replace(run, command=replaced(command, at, OF_ACCELERATE, str(port)))
        return replace(run, command=_with(command, at, f"{OF_ACCELERATE[0]}={port}"))
    return replace(run, env={**run.env, MASTER_PORT: str(port)}) if several else run


def _with(command: tuple[str, ...], at: int, word: str) -> tuple[str, ...]:
    return (*command[:at], word, *command[at:])


def free_port() -> int:
    """A TCP port that nobody listens at now."""
    with socket.socket() as sock:
        sock.bind(("", 0))
        return int(sock.getsockname()[1])

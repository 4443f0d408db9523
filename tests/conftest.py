"""Fixtures of all tests: processes and temporary files of a test end with it."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.processes import DYING_S, MARK, RETRIED, gone, is_left, kill_strays, strays

# Who runs the tests, where, and with what settings is nothing to them: those that ask set it.
for _name in [name for name in os.environ if name.startswith(("AWS_", "SM_", "TRAINPERF_"))]:
    if _name != "TRAINPERF_WRITE_GOLDEN":
        del os.environ[_name]
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
# Imported behind TensorFlow, Triton ends the process (the LLVM of both): on a CPU nothing needs it.
sys.modules.setdefault("triton", None)  # type: ignore[arg-type]

SOCKETS = 70
"""A folder for temporary files whose name is longer has no room for sockets: the kernel allows
107 bytes, and where PyTorch's workers cannot open one, they hang or fail."""


@pytest.fixture(scope="session", autouse=True)
def signals_as_in_a_terminal() -> None:
    """Under nohup SIGHUP is ignored, in the background SIGINT: so it would be by all we start."""
    for number, usual in (
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(autouse=True)
def no_sampler_left() -> Iterator[None]:
    """A sampler of stacks that runs on would hold what later tests expect to be gone."""
    yield
    assert not [one for one in threading.enumerate() if one.name == "trainperf-stacks"]


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Mark every process the test starts; what is still alive after it is killed."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARK, value)
    yield value
    kill_strays(value)


@pytest.fixture
def nothing_left(mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Fail the test if it leaves a process or a temporary file behind."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    if len(str(temporary)) > SOCKETS:
        temporary = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(temporary))
    yield mark
    gone(mark, DYING_S)
    assert strays(mark) == []
    assert list(filter(is_left, temporary.iterdir())) == []
    shutil.rmtree(temporary)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how often something was tried once more: what hides a flaky test must be seen."""
    if RETRIED:
        told = ", ".join(f"{of} ({many})" for of, many in sorted(RETRIED.items()))
        terminalreporter.write_line(f"tried again: {told}")


def pytest_collection_finish() -> None:
    """Leave all that was imported out of collections from now on: each would take half a second."""
    gc.collect()
    gc.freeze()

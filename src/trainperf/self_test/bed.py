"""The scripts that are planted, the framework that runs them, and plain runs of them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from trainperf.errors import TrainperfError
from trainperf.run.interpreter import Interpreter

STEPS = 60
"""So many steps of a plain run are timed, with a wait for the device at each end."""
LIMIT_S = 60.0
"""A plain run that takes longer hangs, or its machine is too busy to say anything."""


Edit = Callable[[str], str]
"""Changes the source of a planted script: a test puts an emulated device into it."""


@dataclass(frozen=True)
class Plants:
    """How a framework's script is called for each plant, and the fix that repairs it."""

    module: str
    name: str
    script: str
    fix: str
    hidden: tuple[str, ...]
    hidden_on_gpu: tuple[str, ...]
    starved: tuple[str, ...]
    starved_on_gpu: tuple[str, ...]


# On a GPU no worker hides the items: the host makes one while the device still computes.
FRAMEWORKS = (
    Plants(
        module="torch",
        name="PyTorch",
        script="torch_planted.py",
        fix="torch_workers",
        hidden=("--item", "0.035", "--step", "0.05", "--workers", "1"),
        hidden_on_gpu=("--item", "0.045", "--step", "0.05"),
        starved=("--item", "0.035", "--step", "0.05"),
        starved_on_gpu=("--item", "0.05", "--step", "0.03"),
    ),
    # tf.data makes one item ahead by itself, so that only items slower than a step are seen.
    Plants(
        module="tensorflow",
        name="TensorFlow",
        script="tensorflow_planted.py",
        fix="tf_py_function",
        hidden=("--item", "0.035", "--step", "0.05", "--ahead", "1"),
        hidden_on_gpu=("--item", "0.035", "--step", "0.05", "--ahead", "1"),
        starved=("--item", "0.045", "--step", "0.03"),
        starved_on_gpu=("--item", "0.045", "--step", "0.03"),
    ),
)


@dataclass(frozen=True)
class Bed:
    """A folder with the script, and what its framework computes on; `gpu` is "" for a CPU.

    `per_second` is how much of the GPU's planted work passes in a second.
    """

    plants: Plants
    folder: Path
    version: str
    gpu: str
    per_second: float
    python: str = sys.executable

    @property
    def hidden(self) -> tuple[str, ...]:
        """The arguments that plant a loader hidden behind the step."""
        return self._on(self.plants.hidden_on_gpu if self.gpu else self.plants.hidden)

    @property
    def starved(self) -> tuple[str, ...]:
        """The arguments that plant a step which waits for its items."""
        return self._on(self.plants.starved_on_gpu if self.gpu else self.plants.starved)

    def _on(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return (*words, "--per-second", f"{self.per_second:.0f}") if self.gpu else words

    def command(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The command that starts the script with these arguments."""
        return (self.python, self.plants.script, *words)

    def plain(self, words: tuple[str, ...]) -> float:
        """Seconds a step takes where nothing observes it. Raises `TrainperfError`."""
        said = _ask(self.command((*words, "--steps", str(STEPS))), self.folder)
        return float(said["step_s"])


def find(name: str | None, python: Interpreter) -> Plants:
    """The framework to test with: the one named, else PyTorch before TensorFlow.

    Raises `TrainperfError` where the Python that is to run it has none.
    """
    wanted = [one for one in FRAMEWORKS if name in (None, one.module)]
    found = next((one for one in wanted if python.has(one.module)), None)
    if found is None:
        what = "neither PyTorch nor TensorFlow" if name is None else f"no {wanted[0].name}"
        raise TrainperfError(
            f"{python.path} has {what}, so there is nothing to test with",
            "activate the environment of your training, or name it: --python .venv",
        )
    return found


def lay_out(plants: Plants, folder: Path, edit: Edit = str, python: str = sys.executable) -> Bed:
    """Write the script into `folder`, as `edit` leaves it, and find out what it computes on.

    Raises `TrainperfError` where the framework does not run.
    """
    packaged = resources.files("trainperf") / "data" / "self_test" / plants.script
    text = edit(packaged.read_text(encoding="utf-8"))
    (folder / plants.script).write_text(text, encoding="utf-8")
    said = _ask((python, plants.script, "--calibrate"), folder)
    version, gpu = str(said["version"]), str(said["gpu"])
    return Bed(plants, folder, version, gpu, float(said["per_second"]), python)


def _ask(command: tuple[str, ...], folder: Path) -> dict[str, Any]:
    """Run a script that prints one line of JSON last. Raises `TrainperfError`."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        took = time.monotonic() - began
        raise TrainperfError(
            f"the planted script did not end within {took:.0f} s", "is the machine very busy?"
        ) from error
    lines = [one for one in done.stdout.splitlines() if one.startswith("{")]
    if done.returncode or not lines:
        said = [one.strip() for one in done.stderr.splitlines() if one.strip()]
        why = said[-1] if said else f"exit status {done.returncode}"
        raise TrainperfError(
            f"the planted script failed: {why}", "trainperf doctor says what does not fit together"
        )
    found: dict[str, Any] = json.loads(lines[-1])
    return found

"""A script that failed because of its GPU: why, in one sentence, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainperf.model import Ending, Gpu, Recording
from trainperf.model.words import share, size

ERROR = re.compile(r"^[\w.]*(?:Error|Exception): (.*)", re.MULTILINE)
"""The last line of a traceback. TensorFlow's log has the words of CUDA's errors on machines
without a GPU as well, where nothing failed."""

GONE = re.compile(r"GPU (\d+): no more samples[^;]*")
FULL = re.compile(r"CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|OOM when allocating", re.I)
TAKEN = re.compile(r"CUDA-capable devices?(?:\(s\))? (?:is/)?are busy or unavailable")
NONE = re.compile(
    r"no CUDA-capable device is detected|Found no NVIDIA driver|No CUDA GPUs are available"
)
HELD = 0.25
"""Share of a GPU's memory that others must have held for it to be said."""

TOLD = {
    "Torch not compiled with CUDA enabled": "This PyTorch was built without CUDA, and the script "
    "asks for a GPU: install a build with CUDA, or let the script take the CPU",
    "driver on your system is too old|CUDA driver version is insufficient": "CUDA does not start: "
    "the NVIDIA driver is too old for the CUDA of this build. Update the driver, or install a "
    "build for an older CUDA (`trainperf doctor` compares the two)",
    "system not yet initialized": "CUDA does not start: the GPUs of this machine are joined by "
    "NVSwitch, and the service that sets it up does not run. Start it: "
    "`sudo systemctl start nvidia-fabricmanager`",
    "unsupported display driver / cuda driver combination": "CUDA does not start: the driver was "
    "updated while it was running, or the container brings a libcuda of another version. Reboot, "
    "or take an image that brings none",
    "CUDA unknown error|CUDA error: unknown error|CUDA_ERROR_UNKNOWN": "CUDA does not start, and "
    "does not say why. Often CUDA_VISIBLE_DEVICES was changed when CUDA had begun, or the machine "
    "slept: reload the module with `sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm`, or reboot",
    "uncorrectable ECC error": "The memory of the GPU had an error that could not be corrected: "
    "reset the GPU with nothing running on it (`sudo nvidia-smi --gpu-reset`), or take another "
    "machine",
}
"""Errors in the words of CUDA (cudaGetErrorString) and of PyTorch, and what they mean."""


def gpu_failure(recording: Recording) -> str | None:
    """Say why the GPU made the script fail; None if it did not fail, or for another reason."""
    if recording.ending not in (Ending.FAILED, Ending.SIGNALLED):
        return None
    gone = GONE.search(recording.sampling_note)
    if gone:
        return (
            f"GPU {gone[1]} went away while the script ran, and the script with it; what was "
            "measured until then stands. `sudo dmesg | grep -i xid` has the driver's reason"
        )
    said = "\n".join(_errors(recording))
    if FULL.search(said):
        return _full(recording.gpus)
    if TAKEN.search(said):
        return _taken(recording.gpus)
    if NONE.search(said):
        return _none(recording)
    return next((sentence for words, sentence in TOLD.items() if re.search(words, said)), None)


def _errors(recording: Recording) -> Iterator[str]:
    for events in recording.events.values():
        yield from (str(event.get("text", "")) for event in events if event["e"] == "error")
    yield from ERROR.findall(recording.output_tail)


def _full(gpus: tuple[Gpu, ...]) -> str:
    """A GPU whose memory ran out; who held it, where NVML said so before the run."""
    ran_out = "The memory of the GPU ran out"
    for gpu in gpus:
        held, total = gpu.memory_before, gpu.memory_total
        if held and total and held >= HELD * total and gpu.other_processes != 0:
            return (
                f"{ran_out}: others held {size(held)} of {size(total)} ({share(held / total)}) of "
                f"GPU {gpu.index} before the script began. End them (`nvidia-smi` lists them), or "
                "take another GPU"
            )
    return f"{ran_out}: a smaller batch, or activation checkpointing, takes less of it"


def _taken(gpus: tuple[Gpu, ...]) -> str:
    """A GPU that takes no other process."""
    modes = {gpu.compute_mode for gpu in gpus}
    if "prohibited" in modes:
        return (
            "The GPU takes no process at all: its compute mode is prohibited. Turn that off: "
            "`sudo nvidia-smi -c 0`"
        )
    if "exclusive" in modes:
        return (
            "The GPU takes one process at a time (compute mode exclusive), and another has it. "
            "End that one, or turn the mode off: `sudo nvidia-smi -c 0`"
        )
    return (
        "The GPU takes no other process: another has it to itself, or it is out of order. "
        "`nvidia-smi` says who has it, and its compute mode"
    )


def _none(recording: Recording) -> str:
    """CUDA sees no GPU; what the driver says of it."""
    there = len(recording.gpus)
    if not there:
        why = f": {recording.gpu_reason}" if recording.gpu_reason else ""
        return f"CUDA finds no GPU here, and the script asks for one{why}"
    return (
        f"CUDA sees no GPU, though the driver lists {there}: CUDA_VISIBLE_DEVICES hides them, or "
        "the container was not given the `compute` capability"
    )

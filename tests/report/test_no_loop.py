"""Runs that ended before their first step: a way out, and where the script stood."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recordings import recording
from trainperf.fixes.common.words import GIB
from trainperf.model import Ending, Gpu, Recording
from trainperf.report.assemble.notes import KERAS_FIT, S3_PATHS, last_place, way_out

OOM = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB"
REPLICAS = "Attempt to convert a value (PerReplica:{\n  0: <tf.Tensor ..."
RANK = "Error initializing via env:// rendezvous: environment variable RANK"
S3 = "{{function_node}} File system scheme 's3' not implemented (file: 's3://b/0.tfrecord')"
WORKERS = {"e": "tf_strategy", "cls": "MultiWorkerMirroredStrategy", "workers": 2}
MIRRORED = {"e": "tf_strategy", "cls": "MirroredStrategy", "replicas": 2}


def failed(text: str, *events: Any, kind: str = "RuntimeError", **fields: Any) -> Recording:
    error = {"e": "error", "type": kind, "text": text}
    return recording(*events, error, ending=fields.pop("ending", Ending.FAILED), **fields)


def printed(tail: str, **fields: Any) -> Recording:
    return recording(ending=Ending.FAILED, output_tail=tail, **fields)


def started(by: str, *command: str) -> Recording:
    run = failed(RANK, kind="ValueError")
    return replace(run, run=replace(run.run, command=(by, *command)))


def card(held: float = 0, **fields: Any) -> Gpu:
    return Gpu(0, "NVIDIA A10G", memory_total=24 * GIB, memory_before=round(held * GIB), **fields)


LOGGED = "E0000 cuda_executor.cc:1228] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-"


@pytest.mark.parametrize(
    "run",
    [
        *(failed(OOM, ending=one) for one in (Ending.FINISHED, Ending.MEASURED)),
        failed("shapes (2,) and (3,)"),
        failed("CUDA error: an illegal memory access was encountered"),
        recording(ending=Ending.FAILED),
        printed(f"{LOGGED}capable device is detected\nTraceback …\nValueError: shapes differ"),
        failed(REPLICAS, MIRRORED),
        failed(REPLICAS),
        failed("'LOCAL_RANK'", {"e": "rank", "rank": 0}, kind="KeyError"),
        failed("'batch_size'", kind="KeyError"),
        printed("termios.error: (25, 'Inappropriate ioctl for device')\n"),
    ],
)
def test_what_failed_otherwise_has_no_way_out(run: Recording) -> None:
    assert way_out(run) is None


NO_DRIVER = "no NVIDIA driver found (libnvidia-ml.so.1 is missing)"
TORCHRUN = "`trainperf diagnose -- torchrun --standalone --nproc_per_node 2 train.py --epochs 3`"
MISSING = "train.py: error: the following arguments are required: --data\n"


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (failed(REPLICAS, WORKERS), KERAS_FIT),
        (printed(f"in MultiWorkerMirroredStrategy\nValueError: {REPLICAS}"), KERAS_FIT),
        (failed(S3, kind="UnimplementedError"), S3_PATHS),
        (printed(f"UnimplementedError: {S3}"), S3_PATHS),
        (started("/usr/bin/python3", "train.py", "--epochs", "3"), TORCHRUN),
        (failed("'LOCAL_RANK'", kind="KeyError"), "trainperf diagnose -- torchrun"),
        (started("/usr/bin/mpirun", "-np", "2"), "mpirun does not set RANK and WORLD_SIZE"),
        (printed(f"usage\n{MISSING}"), "It needs --data: put that behind its name: `trainperf"),
        (printed("Error: Missing option '--data'.\n"), "It needs --data: put that behind"),
        (failed(OOM), "memory of the GPU ran out: a smaller batch"),
        (printed(f"Traceback …\nRuntimeError: {OOM}\n"), "a smaller batch"),
        (failed(OOM, gpus=(card(2.0, other_processes=1),)), "a smaller batch"),
        (
            failed(OOM, gpus=(card(20.0, other_processes=2),)),
            "others held 20.0 GiB of 24.0 GiB (83 %) of GPU 0",
        ),
        (failed(OOM, gpus=(card(20.0, other_processes=0),)), "a smaller batch"),
        (failed("No CUDA GPUs are available", gpus=(card(),)), "sees no GPU, though the driver"),
        (failed("Found no NVIDIA driver", gpu_reason=NO_DRIVER), f"asks for one: {NO_DRIVER}"),
        (failed("The NVIDIA driver on your system is too old (found version 11040)"), "doctor"),
        (
            printed("    _, width = os.popen('stty size', 'r').read().split()\nValueError: not\n"),
            "The script asks its terminal how wide it is",
        ),
        (printed("OSError: [Errno 25] Inappropriate ioctl for device\n"), "get_terminal_size"),
        (failed("CUDA unknown error - this may be due to an incorrectly set up"), "doctor"),
    ],
)
def test_each_failure_that_is_known_has_its_sentence(run: Recording, words: str) -> None:
    assert words in (way_out(run) or "")


AT = {"e": "at", "file": "/home/me/train.py", "line": 4, "function": "download", "into": ""}


def test_a_script_that_stood_still_is_told_with_its_line_and_how_long_it_had_been_there() -> None:
    assert last_place(recording(ending=Ending.STALLED)) == ""
    stood = ({**AT, "t": 10.0}, {**AT, "line": 9, "t": 20.0})
    assert last_place(recording(*stood, ending=Ending.STALLED)) == (
        "When it was stopped, the script had been for 80.0 s at train.py:9 in `download`."
    )
    moved = {**AT, "function": "<module>", "into": "load", "t": 98.0}
    assert last_place(recording(moved, ending=Ending.OUT_OF_BUDGET)) == (
        "When it was stopped, the script was at train.py:4, in a call of `load`."
    )

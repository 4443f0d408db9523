"""Scripts that failed because of their GPU: one sentence each."""

from __future__ import annotations

from typing import Any

import pytest

from recordings import recording
from trainperf.fixes.common.words import GIB
from trainperf.model import Ending, Gpu, Recording
from trainperf.report.assemble.no_loop import way_out

OOM = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB"


def failed(text: str, **fields: Any) -> Recording:
    error = {"e": "error", "type": "RuntimeError", "text": text}
    return recording(error, ending=fields.pop("ending", Ending.FAILED), **fields)


def card(held: float = 0, **fields: Any) -> Gpu:
    return Gpu(0, "NVIDIA A10G", memory_total=24 * GIB, memory_before=round(held * GIB), **fields)


# -------------------------------------------------------------------- nothing to say


def test_a_script_that_did_not_fail_has_no_such_reason() -> None:
    for ending in (Ending.FINISHED, Ending.MEASURED, Ending.INTERRUPTED):
        assert way_out(failed(OOM, ending=ending)) is None


def test_another_error_is_not_the_gpus() -> None:
    assert way_out(failed("shapes (2,) and (3,)")) is None
    assert way_out(failed("CUDA error: an illegal memory access was encountered")) is None
    assert way_out(recording(ending=Ending.FAILED)) is None


def test_what_tensorflow_logs_on_a_machine_without_a_gpu_is_no_error() -> None:
    log = "E0000 cuda_executor.cc:1228] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-"
    tail = f"{log}capable device is detected\nTraceback …\nValueError: shapes differ"
    assert way_out(recording(ending=Ending.FAILED, output_tail=tail)) is None


# ------------------------------------------------------------------ one sentence each


@pytest.mark.parametrize(
    ("text", "gpus", "words"),
    [
        (OOM, (), "memory of the GPU ran out: a smaller batch"),
        (OOM, (card(2.0, other_processes=1),), "a smaller batch"),
        (OOM, (card(20.0, other_processes=2),), "others held 20.0 GiB of 24.0 GiB (83 %) of GPU 0"),
        (OOM, (card(20.0, other_processes=0),), "a smaller batch"),
        ("No CUDA GPUs are available", (card(),), "sees no GPU, though the driver lists some"),
        ("The NVIDIA driver on your system is too old (found version 11040)", (), "doctor"),
        ("CUDA unknown error - this may be due to an incorrectly set up", (), "doctor"),
    ],
)
def test_each_has_its_sentence(text: str, gpus: tuple[Gpu, ...], words: str) -> None:
    said = way_out(failed(text, gpus=gpus))
    assert said is not None
    assert words in said
    printed = recording(
        ending=Ending.FAILED, gpus=gpus, output_tail=f"Traceback …\nRuntimeError: {text}\n"
    )
    assert way_out(printed) == said


def test_no_gpu_is_told_with_the_drivers_reason() -> None:
    reason = "no NVIDIA driver found (libnvidia-ml.so.1 is missing)"
    said = way_out(failed("Found no NVIDIA driver on your system.", gpu_reason=reason))
    assert said == f"CUDA finds no GPU here, and the script asks for one: {reason}"

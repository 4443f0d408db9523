"""What is put into a report of the evidence, and what is said to be missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

import zoo
from fixes.case_text import evidence_of
from recordings import FIT, recording
from reporters.samples import first, over
from trainperf.model import Diagnosis, Event, Gpu
from trainperf.model.torch import Part
from trainperf.report.assemble import diagnosis as report
from trainperf.report.assemble.notes import run_notes
from trainperf.report.sections.parts import NAMES
from trainperf.report.sections.step import rates, waits_s
from trainperf.samplers.nvml import NO_DRIVER


def diagnosis_of(case: str) -> Diagnosis:
    return over(first(case.split()[0]), **vars(evidence_of(case)))


def test_times_that_were_not_taken_are_none_and_not_zero() -> None:
    found = diagnosis_of("null_context")
    assert found.step_s == pytest.approx(0.4607, abs=1e-4)
    assert (found.resident_s, found.input_s, found.host_s) == (None, None, None)


@pytest.mark.parametrize(
    ("laid", "samples_per_s"),
    [
        ("times.real = 0.1", 320.0),
        ("times.real = 0.1; loop.batch_size = null", None),
        ("times.real = missing", None),
    ],
)
def test_samples_per_second_need_a_batch_size_and_a_step(
    laid: str, samples_per_s: float | None
) -> None:
    found = diagnosis_of(f"slow_images | {laid}")
    assert found.per_s(found.evidence.loop.batch_size) == samples_per_s


@pytest.mark.parametrize(
    ("laid", "said"),
    [
        (
            "loop.tokens = 1000.0; loop.real_tokens = 250.0",
            ["2,500 real tokens/s and 7,500 of padding"],
        ),
        ("loop.tokens = 1000.0; loop.real_tokens = 1000.0", ["10,000 tokens/s"]),
        ("loop.tokens = 1000.0", ["10,000 tokens/s"]),
        ("loop.tokens = null", []),
    ],
)
def test_tokens_per_second_need_a_step_and_tokens(laid: str, said: list[str]) -> None:
    _, *tokens = rates(diagnosis_of(f"slow_images | times.real = 0.1; {laid}"))
    assert tokens == said


def test_noise_is_only_given_where_it_is_known() -> None:
    assert diagnosis_of("healthy").noise is not None
    assert diagnosis_of("ddp_compute_bound").noise is None


def reasons(case: str, **of_the_run: Any) -> dict[str, str]:
    run = replace(zoo.load(case.split()[0]).recording, **of_the_run)
    return {lack.what: lack.reason for lack in report.not_measured(run, evidence_of(case))}


def test_everything_that_was_not_measured_has_its_reason() -> None:
    said = reasons("null_context")
    assert said["the step with free input"].startswith("the loop makes its own batches, and none")
    assert said["the input alone"].startswith("the loop makes its own batches, so")
    assert said["the stages of the input"] == "the loop makes its own batches"


@pytest.mark.parametrize(
    ("laid", "reason"),
    [
        ("machine = G5_XLARGE; machine.instance.type.gpus = 0", None),
        ("machine = ML_G5_XLARGE", f"{NO_DRIVER}, though ml.g5.xlarge has 1 × A10G"),
        ("device = A10G", f"{NO_DRIVER}; what the GPU is, CUDA says: NVIDIA A10G"),
    ],
)
def test_a_gpu_is_missed_where_the_instance_or_cuda_has_it(laid: str, reason: str | None) -> None:
    said = reasons(f"healthy | {laid}", gpus=(), gpu_reason=NO_DRIVER)
    assert said.get("GPU use") == reason


def test_what_a_tracker_would_send_is_said_not_to_be_timed() -> None:
    calls = ", ".join(
        f'{{"what": "{what}", "where": "train.py:33", "calls": 1.0, "seconds": 0.001}}'
        for what in ("tqdm.set_postfix", "mlflow.log_metric", "mlflow.log_param")
    )
    said = reasons(f"torch_healthy | torch.logs = [{calls}]")
    assert "`mlflow.log_metric` (train.py:33)" in said["what sending to MLflow takes"]


def test_what_was_measured_is_not_called_missing() -> None:
    said = reasons("slow_images", gpus=(Gpu(0, "NVIDIA A10G"),))
    assert said.keys() == {"a step by lines"}


def notes(laid: str) -> str:
    return "\n".join(report.notes(recording(FIT), evidence_of(f"slow_images | {laid}")))


@pytest.mark.parametrize(
    ("laid", "said"),
    [
        ("times.real.disturbed = 4", "4 blocks were timed beside busy neighbours"),
        ("times.real.blocks = []; times.real.steps = 5", "only 5 steps could be timed"),
    ],
)
def test_what_makes_times_rough_is_noted(laid: str, said: str) -> None:
    assert said in notes(laid)
    assert said not in notes("times.real = 0.1")


def test_notes_of_the_observer_are_given_once_each() -> None:
    note = {"e": "note", "text": "a hook failed"}
    run = recording(note, note, FIT, sampling_note="GPU 1 was lost")
    assert run_notes(run) == ("a hook failed", "GPU 1 was lost")


# --------------------------------------------------------------------------- PyTorch


def test_every_part_has_its_place_in_the_order() -> None:
    assert set(NAMES) == set(get_args(Part))


@pytest.mark.parametrize(
    ("imported", "name"),
    [(("torch", "tensorflow"), "torch"), (("tensorflow",), "tensorflow"), ((), "")],
)
def test_without_a_loop_the_framework_is_the_first_that_was_imported(
    imported: tuple[str, ...], name: str
) -> None:
    events: list[Event] = [{"e": "import", "name": it, "version": "2.13.0"} for it in imported]
    assert report.framework_seen(recording(*events)).name == name


@pytest.mark.parametrize(
    ("case", "what", "reason"),
    [
        (
            'ddp_straggler | parallel.exchange.seconds = missing "too few"',
            "gradient exchange",
            "too few",
        ),
        (
            'ddp_straggler | parallel.scaling_reason = "one device only was free"',
            "the step on fewer devices",
            "one device only was free",
        ),
        (
            "ddp_straggler | parallel.exchange = null",
            "gradient exchange",
            "no exchange of gradients that trainperf knows was seen",
        ),
        (
            ('ddp_straggler | parallel.exchange = null; parallel.processes[1].ending = "failed"'),
            "gradient exchange",
            "a rank ended before the exchange was looked at",
        ),
    ],
)
def test_a_job_says_what_of_its_exchange_was_not_measured(
    case: str, what: str, reason: str
) -> None:
    assert reasons(case)[what] == reason


def test_what_a_rank_waits_is_by_its_own_step() -> None:
    job = evidence_of("ddp_straggler").parallel
    waits = [waits_s(rank, job) for rank in job.processes]
    assert waits == [pytest.approx(0.01012, abs=1e-5), 0.0]

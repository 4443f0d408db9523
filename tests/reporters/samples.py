"""Diagnoses by name: of real runs, with a few fields laid over them where a test needs them.

What no run here can show, as two GPUs or a job on four hosts, is laid over the nearest of them.
"""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import zoo
from trainperf.diagnose import Request
from trainperf.diagnose.judging import first_verdict
from trainperf.evidence.events import NoLoop
from trainperf.model import (
    ContainerUse,
    Cost,
    Diagnosis,
    Ending,
    Finding,
    Gpu,
    Instance,
    Measure,
    Missing,
    Objects,
    Outcome,
    Patch,
    PhaseUse,
    Price,
    Probe,
    StepLines,
    Trial,
    Trials,
)
from trainperf.report.assemble.diagnosis import without_loop

GIB = 1024**3
NASTY = "[red]x[/red]\x1b[31mred\x1b[0m\x07\u202e[/] :smile: \udce9"


@cache
def first(name: str) -> Diagnosis:
    """The first verdict on a recording."""
    return verdict_on(zoo.load(name))


def verdict_on(recorded: zoo.Recorded, **laid_over: Any) -> Diagnosis:
    """The first verdict on a recording, with fields of its evidence laid over it."""
    request = Request(recorded.recording.run, Path("/nowhere"), trials=False)
    return first_verdict(request, recorded.recording, replace(recorded.evidence, **laid_over))


def over(diagnosis: Diagnosis, **fields: Any) -> Diagnosis:
    """The diagnosis with fields laid over it, its own or those of its evidence."""
    own = {name: fields.pop(name) for name in [*fields] if name in Diagnosis.__dataclass_fields__}
    return replace(diagnosis, evidence=replace(diagnosis.evidence, **fields), **own)


def timed(diagnosis: Diagnosis, noise: float | None = None, **seconds: Any) -> Diagnosis:
    """The diagnosis with other seconds of `real`, `resident`, `input` or `host`, None for none.

    Several of one kind are its blocks of steps.
    """

    def taken(value: Any) -> Measure | Missing:
        if value is None:
            return Missing("it was not timed")
        blocks = value if isinstance(value, tuple) else ()
        mean = sum(blocks) / len(blocks) if blocks else value
        low, high = (None, None) if noise is None else (mean * (1 - noise), mean * (1 + noise))
        return Measure(mean, 100, blocks, low, high)

    host = {"host_": seconds.pop("host") or Missing("")} if "host" in seconds else {}
    measures = {f"{name}_": taken(value) for name, value in seconds.items()}
    return over(diagnosis, times=replace(diagnosis.evidence.times, **measures, **host))


def on_torch(diagnosis: Diagnosis, **fields: Any) -> Diagnosis:
    """The diagnosis with fields of what only PyTorch has laid over it."""
    return over(diagnosis, torch_=replace(diagnosis.evidence.torch, **fields))


def finding(diagnosis: Diagnosis, id_: str) -> Finding:
    return next(finding for finding in diagnosis.findings if finding.id == id_)


def trial(diagnosis: Diagnosis, outcome: Outcome) -> Trial:
    return next(trial for trial in diagnosis.trials if trial.outcome is outcome)


# ------------------------------------------------------------------------- without trials

INPUT_BOUND = first("slow_images")
CWD = INPUT_BOUND.cwd
CACHE, PARALLEL_MAP = INPUT_BOUND.findings
DECODE = PARALLEL_MAP.where[0]


def _healthy() -> Diagnosis:
    """The healthy example as on a quiet machine with more time: its steps vary by 1 %."""
    recorded = zoo.load("healthy")
    times, probes = recorded.evidence.times, recorded.evidence.probes
    real = times.real_
    assert isinstance(real, Measure)
    calm = replace(real, low=0.99 * real.seconds, high=1.01 * real.seconds)
    made = {name: probe for name, probe in probes.items() if isinstance(probe, Probe)}
    return verdict_on(recorded, times=replace(times, real_=calm), probes=made)


def _failed() -> Diagnosis:
    """The slow images as if they had failed where the model is built."""
    recorded = zoo.load("slow_images")
    tail = "Traceback (most recent call last):\nTypeError: build() got an unexpected argument 'n'\n"
    recording = replace(
        recorded.recording, ending=Ending.FAILED, events={}, samples=(), output_tail=tail
    )
    ended = without_loop(recording, recorded.machine, NoLoop("no loop was seen", "", ()), 0.0)
    return replace(ended, seconds=3.9)


HEALTHY = _healthy()
FAILED = _failed()
PARTIAL = replace(
    first("null_context"), ending=Ending.STALLED, output_tail="step 1\rstep 2\rstep 7\n"
)
"""A step that makes its own batches: it was timed, and not without its input."""

CARDS = tuple(Gpu(index, "NVIDIA A10G", memory_total=24 * GIB) for index in range(2))
BUSY: dict[str, Any] = {"utilization_percent": 94.0, "power_w": 287.4, "sm_clock_mhz": 1709.6}
TWO_GPUS = replace(
    over(
        INPUT_BOUND,
        machine=replace(INPUT_BOUND.evidence.machine, gpus=CARDS, gpu_reason=""),
        use=(
            PhaseUse(
                "real",
                40,
                gpu=({"index": 0, "throttle_shares": {"power cap": 1.0}, **BUSY}, {"index": 1}),
            ),
        ),
    ),
    patch=replace(INPUT_BOUND.patch or Patch("", ()), environment={"TF_GPU_THREAD_COUNT": "2"}),
)
TORCH = first("torch_slow_transform")
TRACE = TORCH.evidence.torch.trace
assert TRACE is not None
ON_A_GPU = over(
    TORCH,
    device=replace(TORCH.evidence.device, kind="GPU", name="NVIDIA A10G"),
    torch_=replace(
        TORCH.evidence.torch,
        trace=replace(
            TRACE,
            device="cuda",
            kernels=702.0,
            others_s=TRACE.others_s + 0.050 - TRACE.operators_s,
            gap_s=0.005,
            unqueued_s=0.004,
            fusable_s=0.020,
        ),
        memory={"allocated_peak": 4 * GIB, "reserved_peak": 5 * GIB, "total": 24 * GIB},
    ),
)
LINES = msgspec.json.decode(
    (Path(__file__).parents[1] / "data/step_lines.json")
    .read_text("utf-8")
    .replace(zoo.FOLDER, TORCH.cwd),
    type=dict[str, StepLines],
)
"""The steps of three scripts by their lines (see tests/data/README.md)."""
BY_LINE = over(TORCH, lines_=LINES["torch_vqvae_batches"])
LATE, SYNC = first("ddp_straggler"), first("ddp_large_gradients")
"""Two ranks, of which one is late; and two that exchange large gradients."""

# ---------------------------------------------------------------------------- with trials

TRIED = zoo.diagnosed("slow_images")
WHOLE_RUNS = zoo.diagnosed("config_object")
NOTHING_KEPT = zoo.diagnosed("generator")
OTHER_EXPERIMENTS = zoo.diagnosed("checkpoint_every_batch")
SEVERAL_WAYS = zoo.diagnosed("torch_slow_transform")
ONE_KEPT = zoo.diagnosed("rnn_padded_text")
KEPT = TRIED.trials[0]
"""Caching gave 3.2 times the speed of the slow images."""


def outcome(which: Outcome, reason: str, **fields: Any) -> Trial:
    """A fix of the slow images' trials as if it had come to this."""
    return replace(KEPT, outcome=which, reason=reason, kept=False, **fields)


ALL_OUTCOMES = replace(
    ONE_KEPT,
    trials=(
        *ONE_KEPT.trials,
        outcome(Outcome.LOSSES_DIFFER, "by 7.3 % from step 12 on", fix="keras_xla"),
        outcome(Outcome.LOSES, "earned back after 1,830 steps, and it has 282", fix="tf_cache"),
        outcome(Outcome.REDUNDANT, "on top of tf_padding it gave 1.00×", fix="tf_prefetch"),
        outcome(Outcome.NO_EFFECT, "", fix="tf_options", speedup=1.0, low=0.99, high=1.01),
        Trial("tf_interleave_parallel", Outcome.NOT_TRIED, "out of budget", bound=1.1),
    ),
    trying=replace(ONE_KEPT.trying or Trials("none"), budget_needed_s=281.0),
)
"""What the padded texts' trials came to, and what came to none of them."""

OUT_OF_BUDGET = replace(
    INPUT_BOUND,
    trials=tuple(
        Trial(one.id, Outcome.NOT_TRIED, "out of budget") for one in (CACHE, PARALLEL_MAP)
    ),
    trying=Trials("none", reason="the script needs 94 s to its first step", budget_needed_s=402.0),
)
INTERRUPTED = replace(
    TRIED,
    trials=(KEPT, Trial("tf_map_parallel", Outcome.NOT_TRIED, "interrupted")),
    trying=replace(TRIED.trying or Trials("none"), reason="interrupted", interrupted=True),
    stack=None,
    control=None,
    training=INPUT_BOUND.training,
)

# -------------------------------------------------------------------------------- hostile


@cache
def _kinds(owner: type) -> dict[str, set[Any]]:
    """Of each field of a dataclass the types that its annotation names."""

    def named(hint: Any) -> set[Any]:
        return {hint}.union(*map(named, typing.get_args(hint)))

    return {name: named(hint) for name, hint in typing.get_type_hints(owner).items()}


def poisoned(value: Any, name: str, free: bool = True) -> Any:
    """The value with `name` in place of every text but ids and the version."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kinds = _kinds(type(value))
        fields = kinds.keys() - {"trainperf_version", "id"}
        texts = {one: poisoned(getattr(value, one), name, str in kinds[one]) for one in fields}
        return replace(value, **texts)
    if isinstance(value, dict):
        return {key: poisoned(inner, name, free) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(poisoned(inner, name, free) for inner in value)
    return name if free and isinstance(value, str) and not isinstance(value, Enum) else value


PRICE = Price(1.212, "--price-per-hour")
BUCKET = Objects(
    "data",
    region="eu-west-1",
    prefix="train/",
    requests=3200,
    request_s=0.030,
    seconds=20.0,
    requests_per_step=32.0,
    errors=(("SlowDown", 40),),
)
ON_AWS = replace(
    TWO_GPUS.evidence.machine,
    instance=Instance("sagemaker", "ml.g5.2xlarge", None, "eu-west-1", hosts=2),
    price=PRICE,
)
EVERYTHING = replace(
    over(
        ALL_OUTCOMES,
        machine=ON_AWS,
        objects=(BUCKET,),
        container=ContainerUse(
            21.2,
            quota_cores=4.0,
            throttled_share=0.62,
            memory_limit=16 * GIB,
            memory_peak=15 * GIB,
            memory_events=(("oom_kill", 0),),
            swapped_in=0,
        ),
        lines_=LINES["torch_triplets"],
        **{
            name: getattr(diagnosis.evidence, name)
            for diagnosis, names in (
                (INPUT_BOUND, "stages_ reads callbacks outside_ times"),
                (ON_A_GPU, "torch_ device"),
                (LATE, "parallel_ functions"),
                (TWO_GPUS, "use"),
            )
            for name in names.split()
        },
    ),
    cost=Cost(PRICE, 2, 2.9, 0.85, 1.66, 0.487),
    experiment_changes=OTHER_EXPERIMENTS.experiment_changes,
    stack=TRIED.stack,
    training=TRIED.training,
    output_tail="the last words\n",
    patch=replace(TRIED.patch or Patch("", ()), environment={"NAME": "value"}),
)
"""Every section that a report has."""

HOSTILE: Diagnosis = poisoned(EVERYTHING, NASTY)

SAMPLES = {
    "input_bound": INPUT_BOUND,
    "healthy": HEALTHY,
    "failed": FAILED,
    "partial": PARTIAL,
    "two_gpus": TWO_GPUS,
    "torch": TORCH,
    "on_a_gpu": ON_A_GPU,
    "by_line": BY_LINE,
    "straggler": LATE,
    "exchange": SYNC,
    "outside": first("predict_between_fits"),
    "tried": TRIED,
    "whole_runs": WHOLE_RUNS,
    "nothing_kept": NOTHING_KEPT,
    "other_experiments": OTHER_EXPERIMENTS,
    "several_ways": SEVERAL_WAYS,
    "one_kept": ONE_KEPT,
    "all_outcomes": ALL_OUTCOMES,
    "out_of_budget": OUT_OF_BUDGET,
    "interrupted": INTERRUPTED,
    "everything": EVERYTHING,
    "hostile": HOSTILE,
}

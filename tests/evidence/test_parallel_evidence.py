"""From what the ranks of a job recorded to the job: who was there, what they did, who waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import zoo
from fixes.boxes import box
from fixes.case_text import evidence_of
from trainperf.evidence import read
from trainperf.evidence.events import choose
from trainperf.evidence.parallel import LONGER, joined, parallel, summarise, whole_job
from trainperf.model import (
    Event,
    Gpu,
    GpuSample,
    Measure,
    Missing,
    Parallel,
    Rank,
    Recording,
    Sample,
)

NAME = "ddp_large_gradients"
RECORDED = zoo.load(NAME).recording
LAUNCHER, *RANKS = RECORDED.events.values()
LOOP = evidence_of(NAME).loop
REAL = evidence_of(NAME).parallel.processes[0].real
assert isinstance(REAL, Measure)


def process(number: int, *more: Event, **changes: Event) -> tuple[Event, ...]:
    """The record of a rank of a job, and more; `changes` are fields of its events, by kind."""
    changes["rank"] = {"rank": number, **changes.get("rank", {})}
    own = tuple({**event, **changes.get(event["e"], {})} for event in RANKS[number % 2])
    return (*own, *({"t": own[-1]["t"], **event} for event in more))


def until(phase: str, number: int, *more: Event) -> tuple[Event, ...]:
    """The record of a rank that ended in a phase, and more."""
    own = process(number)
    end = next(at for at, one in enumerate(own) if (one["e"], one.get("p")) == ("phase", phase))
    return (*own[: end + 1], *({"t": own[end]["t"], **event} for event in more))


def without(events: tuple[Event, ...], *names: str) -> tuple[Event, ...]:
    """A record without the events of some kinds or phases."""
    return tuple(
        one for one in events if not {one["e"], str(one.get("p")).rstrip("~")} & set(names)
    )


def run(*processes: tuple[Event, ...]) -> Recording:
    return replace(RECORDED, events=dict(enumerate(processes, 100)))


def job(*processes: tuple[Event, ...]) -> Parallel:
    whole = run(*processes)
    found = parallel(whole, choose(whole), box())
    assert found is not None
    return found


def rank(number: int, **fields: Any) -> Rank:
    """The first rank of the recorded job as another one, with at most three fields changed."""
    laid = {f"parallel.processes[0].{name}": value for name, value in fields.items()}
    return replace(evidence_of(NAME, laid).parallel.processes[0], rank=number)


def of_ranks(*ranks: Rank, samples: tuple[Sample, ...] = ()) -> Parallel:
    whole = run(process(0, rank={"world_size": len(ranks)}))
    found = joined(ranks, choose(whole), samples)
    assert found is not None
    return found


def cost(found: Parallel) -> Measure:
    assert found.exchange is not None
    assert isinstance(found.exchange.seconds_, Measure)
    return found.exchange.seconds_


# ------------------------------------------------------------------------ one process


GONE = "when its connection to another rank broke"


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ([], "stopped while its steps were timed"),
        (
            [{"e": "error", "type": "ValueError", "text": "NaN loss\nat step 3"}],
            "failed while its steps were timed with ValueError: NaN loss",
        ),
        (
            [{"e": "error", "type": "RuntimeError", "text": "Connection closed by peer"}],
            f"failed while its steps were timed, {GONE} (RuntimeError)",
        ),
        (
            [{"e": "error", "type": "ValueError", "text": "many words " * 30}],
            f"failed while its steps were timed with ValueError: {'many words ' * 14}many …",
        ),
        ([{"e": "phase", "p": "facts", "b": 0}], "measured"),
    ],
)
def test_how_a_rank_ended_is_said_in_words(last: list[Event], words: str) -> None:
    found = summarise(until("resident", 0, *last))
    assert found is not None
    assert found.ended == words


# --------------------------------------------------------------------------- the job

OF_THREE = {"rank": {"world_size": 3}, "exchange": {"replicas": 3}}


def test_ranks_without_a_record_are_absent() -> None:
    size = {"world_size": 4}
    assert job(process(0, rank=size), process(2, rank=size)).absent == (1, 3)


def test_a_rank_that_was_started_again_counts_once_with_its_longer_record() -> None:
    cut = until("warmup", 1)
    found = job(process(0), cut, process(1), cut)
    assert [one.ended for one in found.processes] == ["measured", "measured"]


def test_the_batch_of_the_loop_is_that_of_all_ranks() -> None:
    loop = read(run(process(0), process(1, facts={"batch_size": 24})), box()).loop
    assert (loop.batch_size, loop.replicas) == (8 + 24, 2)


@pytest.mark.parametrize(("other", "batch"), [({}, 24), ({"facts": {"batch_size": 24}}, None)])
def test_the_batch_of_an_absent_rank_is_that_of_the_others_if_they_are_alike(
    other: dict[str, Event], batch: int | None
) -> None:
    found = job(process(0, **OF_THREE), process(1, **OF_THREE, **other))
    assert whole_job(LOOP, found).batch_size == batch


def test_processes_that_nothing_ties_together_count_each_for_itself() -> None:
    untied = [process(number, rank={"tied": False}) for number in range(2)]
    found = job(*(without(one, "exchange", "ddp") for one in untied))
    assert (found.expected, found.replicas) == (2, 1)
    assert "ties them together" in found.notes[0]
    assert whole_job(LOOP, found).batch_size == LOOP.batch_size
    known = job(*untied)
    assert (known.replicas, known.notes) == (2, ())


# ------------------------------------------------------------------------- the exchange


def of(*blocks: float) -> Measure:
    return Measure(sum(blocks) / len(blocks), 50, blocks, low=min(blocks), high=max(blocks))


STEADY = of(0.099, 0.100, 0.101, 0.100, 0.100)


def alike(real: object, local: object) -> Parallel:
    return of_ranks(*(rank(number, real=real, local=local) for number in range(2)))


def test_drift_of_the_machine_cancels_in_the_interval() -> None:
    drift = (1.0, 1.1, 1.2, 1.3, 1.4)
    real = of(*(0.100 * slower for slower in drift))
    steady = cost(alike(real, of(*(0.060 * slower for slower in drift))))
    assert steady.low is not None
    assert steady.high is not None
    assert steady.low > 0
    assert steady.high - steady.low < max(real.blocks) - min(real.blocks)


def test_steps_that_are_much_longer_without_the_exchange_tell_nothing() -> None:
    found = alike(STEADY, of(*(1.5 * block for block in STEADY.blocks)))
    assert found.exchange is not None
    assert found.exchange.seconds_ == LONGER


def test_without_a_local_phase_nothing_is_known_of_its_cost() -> None:
    said = {"e": "missing", "what": "local", "reason": "FSDP cannot be switched off"}
    found = job(*(without(process(number, said), "local") for number in range(2)))
    assert found.exchange is not None
    assert found.exchange.seconds_ == Missing("FSDP cannot be switched off")
    assert isinstance(found.exchange.waiting_, Missing)


# ----------------------------------------------------------------------------- skew


def four(others: dict[str, Any] | None = None, **slow: Any) -> Parallel:
    """Four ranks, of which rank 2 is another."""
    same = {"local": 0.012, **(others or {})}
    usual = [rank(number, **same) for number in (0, 1, 3)]
    return of_ranks(*usual, rank(2, **{"local": 0.038, **slow}))


@pytest.mark.parametrize(
    "local", [0.0131, Measure(0.016, 30, (), low=0.010, high=0.022), 0.004], ids=str
)
def test_a_rank_within_a_tenth_or_the_noise_is_no_straggler_nor_are_others_of_a_quick_one(
    local: object,
) -> None:
    assert four(local=local).stragglers == ()


def test_a_late_rank_is_named_with_how_far_it_is_behind() -> None:
    (found,) = four().stragglers
    assert (found.rank, found.phase, found.cause) == (2, "step", "")
    assert found.behind_s == pytest.approx(0.026)
    assert found.share == pytest.approx(0.026 / REAL.seconds)


@pytest.mark.parametrize(
    ("others", "different", "cause"),
    [
        ({}, {"batch_size": 64}, "its batch holds 64 samples, that of rank 0 8"),
        ({"threads": 4}, {}, "it computes with 1 thread, rank 0 with 4"),
        ({}, {"cores": [9]}, "it may run on 1 core, rank 0 on 2"),
    ],
)
def test_what_is_different_about_a_late_rank_is_its_cause(
    others: dict[str, Any], different: dict[str, Any], cause: str
) -> None:
    (found,) = four(others, **different).stragglers
    assert found.cause == cause


def test_a_late_input_is_told_from_a_late_step() -> None:
    (found,) = four({"input": 0.010}, input=0.030).stragglers
    assert found.phase == "input"
    assert found.cause == "its input takes 30.0 ms a step, that of rank 0 10.0 ms"
    (found,) = four({"input": 0.010}, input=0.020).stragglers
    assert found.phase == "step"


def test_a_host_whose_ranks_are_all_late_is_a_cause() -> None:
    ranks = [
        rank(number, local=0.038 if number > 2 else 0.012, host=f"node-{number // 3}")
        for number in range(5)
    ]
    first, second = of_ranks(*ranks).stragglers
    assert first.cause == second.cause == "all ranks on host node-1 are behind, and no others"


def test_a_gpu_with_a_slower_clock_is_a_cause_where_it_is_sure_whose_it_is() -> None:
    gpus = (
        GpuSample(0, sm_clock_mhz=1700, throttle=()),
        GpuSample(1, sm_clock_mhz=1100, throttle=("power cap",)),
    )
    samples = (Sample(0.0, None, gpus),)
    ranks = (
        rank(0, local=0.012, gpu=0),
        rank(1, local=0.038, gpu=1),
    )
    (found,) = of_ranks(*ranks, samples=samples).stragglers
    assert found.cause == "its GPU ran at 1100 MHz, that of rank 0 at 1700 (power cap)"
    for unsure in (None, 0):
        others = (ranks[0], replace(ranks[1], gpu=unsure))
        assert of_ranks(*others, samples=samples).stragglers[0].cause == ""


def test_the_gpu_of_a_rank_is_found_by_its_uuid_on_its_own_host() -> None:
    cards = (Gpu(0, "a GPU", uuid="GPU-11-bb"), Gpu(1, "a GPU", uuid="GPU-00-aa"))
    machine = box(gpus=cards)
    ranks = (
        rank(0, gpu_uuid="00-aa"),
        rank(1, gpu_uuid="22-cc"),
        rank(2),
        rank(3, gpu_uuid="11-bb", host="another"),
    )
    whole = run(process(0, rank={"world_size": 4}))
    found = parallel(whole, choose(whole), machine, ranks)
    assert [one.gpu for one in found.processes] == [1, None, None, None]


def test_without_local_steps_a_late_input_is_seen_where_the_job_waits_for_it() -> None:
    def one(number: int, resident: float) -> Rank:
        slow = 0.050 if number == 1 else 0.010
        return rank(number, local=Missing("not timed"), input=slow, resident=resident)

    (found,) = of_ranks(*(one(number, 0.028) for number in range(4))).stragglers
    assert (found.rank, found.phase, found.behind_s) == (1, "input", pytest.approx(0.040))
    assert of_ranks(*(one(number, 0.067) for number in range(4))).stragglers == ()


# --------------------------------------------------------------------------- scaling


def test_more_ranks_than_cores_are_noted() -> None:
    (note,) = job(*(process(number, **OF_THREE) for number in range(3))).notes
    assert "3 ranks take turns on the 2 cores" in note
    assert job(process(0), process(1)).notes == ()

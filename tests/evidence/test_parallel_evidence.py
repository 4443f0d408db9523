"""From what the ranks of a job recorded to the job: who was there, what they did, who waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kit.evidence import machine, measure
from kit.parallel_evidence import rank
from recordings import FIT, block, recording, steps
from trainperf.evidence import read
from trainperf.evidence.events import choose
from trainperf.evidence.exchange import LONGER
from trainperf.evidence.parallel import (
    joined,
    on_gpus,
    parallel,
    summarise,
    whole_job,
    with_scaling,
)
from trainperf.model import (
    Event,
    Gpu,
    GpuSample,
    Loop,
    Measure,
    Missing,
    Parallel,
    Rank,
    Recording,
    Sample,
    ScalingPoint,
)
from trainperf.model.parallel import GONE

LOOP = {
    **FIT,
    "kind": "iterator",
    "framework": "torch",
    "phases": ["real", "local", "resident", "input"],
}
FACTS = {"e": "facts", "replicas": 1, "batch_size": 32, "epoch_steps": 100, "strategy": ""}
EXCHANGE = {
    "e": "exchange",
    "method": "DistributedDataParallel",
    "backend": "gloo",
    "replicas": 2,
    "bytes": 12_600_000,
    "buckets": [12_600_000],
}
DONE = {"e": "measured"}


def place(number: int, size: int = 2, **fields: Any) -> Event:
    return {
        "e": "rank",
        "rank": number,
        "world_size": size,
        "local_rank": number,
        "host": "node-a",
        "launcher": "torchrun",
        "backend": "gloo",
        "device": "",
        "cores": [0, 1],
        "threads": 1,
        **fields,
    }


def timed(phase: str, seconds: float, drift: float = 0.0) -> list[Event]:
    """Five rounds of eight steps; the machine gets slower by `drift` from round to round."""
    made: list[Event] = []
    for index in range(5):
        each = seconds * (1 + drift * index)
        made.append({"e": "phase", "p": phase, "b": index})
        made += steps(phase, [each * (1 + 0.01 * (-1) ** step) for step in range(8)], index)
        made.append(block(phase, 8 * each, 8, index))
    return made


def drained(seconds: float) -> list[Event]:
    marks = [(seconds * count, count) for count in range(1, 9)]
    return [{"e": "phase", "p": "input", "b": 0}, {"e": "input", "b": 0, "s": 0.0, "marks": marks}]


def process(
    number: int,
    size: int = 2,
    real: float = 0.100,
    local: float | None = 0.060,
    resident: float = 0.098,
    input: float = 0.004,
    extra: tuple[Event, ...] = (),
    facts: Event = FACTS,
    drift: float = 0.0,
    **fields: Any,
) -> tuple[Event, ...]:
    """The record of one rank of a job that runs to its end."""
    return stamped(
        {"e": "hello", "pid": 100 + number},
        place(number, size, **fields),
        LOOP,
        *timed("real", real, drift),
        *([] if local is None else timed("local", local, drift)),
        *timed("resident", resident),
        *drained(input),
        facts,
        *extra,
        DONE,
    )


def stamped(*events: Event) -> tuple[Event, ...]:
    return tuple({"t": float(index), **event} for index, event in enumerate(events))


def run(*processes: tuple[Event, ...], **fields: Any) -> Recording:
    return recording(events=dict(enumerate(processes, 100)), **fields)


def job(*processes: tuple[Event, ...], **fields: Any) -> Parallel:
    whole = run(*processes, **fields)
    found = parallel(whole, choose(whole), machine())
    assert found is not None
    return found


def cost(found: Parallel) -> Measure:
    assert found.exchange is not None
    assert isinstance(found.exchange.seconds_, Measure)
    return found.exchange.seconds_


# ------------------------------------------------------------------------ one process


def test_a_process_that_neither_trains_nor_is_a_rank_is_none() -> None:
    assert summarise(stamped({"e": "hello", "pid": 1})) is None


def test_what_is_not_said_is_not_known() -> None:
    bare = {"e": "rank", "rank": 0, "world_size": 2}
    found = summarise(stamped(bare, LOOP, *timed("real", 0.1)))
    assert found is not None
    assert (found.pid, found.local_rank, found.threads, found.cores) == (None, None, None, None)
    assert (found.batch_size, found.epoch_steps) == (None, None)
    assert isinstance(found.local, Missing)


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ([], "stopped in the resident phase"),
        (
            [{"e": "error", "type": "ValueError", "text": "NaN loss\nat step 3"}],
            "failed in the resident phase with ValueError: NaN loss",
        ),
        (
            [{"e": "error", "type": "KeyError", "text": ""}],
            "failed in the resident phase with KeyError",
        ),
        (
            [{"e": "error", "type": "RuntimeError", "text": "Connection closed by peer"}],
            f"failed in the resident phase, {GONE} (RuntimeError)",
        ),
        (
            [{"e": "error", "type": "ValueError", "text": "many words " * 30}],
            f"failed in the resident phase with ValueError: {'many words ' * 14}many …",
        ),
        ([{"e": "exit"}], "ended by itself in the resident phase"),
        ([{"e": "phase", "p": "facts", "b": 0}], "measured"),
    ],
)
def test_how_a_rank_ended_is_said_in_words(last: list[Event], words: str) -> None:
    begun = {"e": "phase", "p": "resident", "b": 1}
    found = summarise(stamped(place(0), LOOP, *timed("real", 0.1), begun, *last))
    assert found is not None
    assert found.ended == words


def test_a_rank_without_a_loop_is_a_rank_all_the_same() -> None:
    error = {"e": "error", "type": "OSError", "text": "no such file"}
    found = summarise(stamped({"e": "hello", "pid": 7}, place(1), error))
    assert found is not None
    assert found.ended == "failed before a training loop began with OSError: no such file"
    assert isinstance(found.real, Missing)


# -------------------------------------------------------------------- which is reported


def test_rank_0_is_reported_though_another_made_more_steps() -> None:
    longer = process(1, extra=(*steps("real~", [0.1] * 50),))
    assert choose(run(longer, process(0))).process[1]["rank"] == 0


def test_a_rank_0_that_was_not_timed_is_passed_over() -> None:
    cut = stamped(place(0), LOOP, *steps("warmup", [0.1] * 50))
    assert choose(run(cut, process(1))).process[1]["rank"] == 1


# --------------------------------------------------------------------------- the job


def test_ranks_without_a_record_are_absent() -> None:
    assert job(process(0, 4), process(2, 4)).absent == (1, 3)


def test_a_rank_that_was_started_again_counts_once_with_its_longer_record() -> None:
    cut = stamped(place(1), LOOP, *steps("warmup", [0.1] * 3))
    found = job(process(0), cut, process(1), cut)
    assert [one.ended for one in found.processes] == ["measured", "measured"]


def test_a_rank_beyond_the_size_of_the_job_is_noted() -> None:
    (note,) = job(process(0), process(1), process(5)).notes
    assert note == "rank 5 reported, where the job was to have 2 ranks"


def test_the_batch_of_the_loop_is_that_of_all_ranks() -> None:
    whole = run(process(0), process(1, facts={**FACTS, "batch_size": 24}))
    loop = read(whole, machine()).loop
    assert (loop.batch_size, loop.replicas) == (56, 2)


def test_the_batch_of_an_absent_rank_is_that_of_the_others_if_they_are_alike() -> None:
    loop = Loop("iterator", batch_size=32)
    assert whole_job(loop, job(process(0, 3), process(1, 3))).batch_size == 96
    other = process(1, 3, facts={**FACTS, "batch_size": 24})
    assert whole_job(loop, job(process(0, 3), other)).batch_size is None
    assert whole_job(loop, None) is loop


def test_processes_that_nothing_ties_together_count_each_for_itself() -> None:
    found = job(process(0, tied=False), process(1, tied=False))
    assert (found.expected, found.replicas) == (2, 1)
    assert "ties them together" in found.notes[0]
    assert whole_job(Loop("iterator", batch_size=32), found).batch_size == 32
    known = job(process(0, tied=False, extra=(EXCHANGE,)), process(1, tied=False))
    assert (known.replicas, known.notes) == (2, ())


# ------------------------------------------------------------------------- the exchange


def test_drift_of_the_machine_cancels_in_the_interval() -> None:
    steady = cost(job(process(0, extra=(EXCHANGE,), drift=0.10), process(1, drift=0.10)))
    assert steady.low is not None
    assert steady.high is not None
    assert steady.low > 0
    own = summarise(process(0, drift=0.10))
    assert own is not None
    assert isinstance(own.real, Measure)
    assert own.real.low is not None
    assert own.real.high is not None
    assert steady.high - steady.low < own.real.high - own.real.low


def test_an_exchange_within_the_noise_has_an_interval_that_begins_at_0() -> None:
    real = Measure(0.100, 50, (0.097, 0.103, 0.100, 0.098, 0.102), low=0.09, high=0.11)
    local = Measure(0.099, 50, (0.102, 0.096, 0.099, 0.1, 0.098), low=0.09, high=0.11)
    ranks = [rank(number, real=real, local=local) for number in range(2)]
    found = joined(ranks, choose(run(process(0, extra=(EXCHANGE,)))))
    assert found is not None
    assert cost(found).low == 0
    assert isinstance(found.break_even_batch_, Missing)
    assert "noise" in found.break_even_batch_.reason


def test_runs_of_steps_that_cannot_be_paired_count_with_both_intervals() -> None:
    real = Measure(0.100, 30, (0.1, 0.1), low=0.097, high=0.103)
    local = Measure(0.080, 30, (0.08,) * 3, low=0.076, high=0.084)
    ranks = [rank(number, real=real, local=local) for number in range(2)]
    found = joined(ranks, choose(run(process(0, extra=(EXCHANGE,)))))
    assert found is not None
    assert cost(found).low == pytest.approx(0.015)
    assert cost(found).high == pytest.approx(0.025)


def test_an_exchange_is_never_negative() -> None:
    found = cost(job(process(0, local=0.104, extra=(EXCHANGE,)), process(1, local=0.104)))
    assert (found.seconds, found.low) == (0, 0)


def test_steps_that_are_much_longer_without_the_exchange_tell_nothing() -> None:
    found = job(process(0, local=0.15, extra=(EXCHANGE,)), process(1, local=0.16))
    assert found.exchange is not None
    assert found.exchange.seconds_ == LONGER


def test_without_a_local_phase_nothing_is_known_of_its_cost() -> None:
    said = {"e": "missing", "what": "local", "reason": "FSDP cannot be switched off"}
    found = job(process(0, local=None, extra=(EXCHANGE, said)), process(1, local=None))
    assert found.exchange is not None
    assert found.exchange.seconds_ == Missing("FSDP cannot be switched off")
    assert isinstance(found.exchange.waiting_, Missing)
    assert isinstance(found.break_even_batch_, Missing)


def test_one_process_with_several_replicas_waits_for_nobody() -> None:
    strategy = {"e": "tf_strategy", "cls": "MirroredStrategy", "replicas": 2, "workers": 1}
    facts = {**FACTS, "replicas": 2, "strategy": "MirroredStrategy", "batch_size": 64}
    events = (LOOP, *timed("real", 0.1), *timed("local", 0.07), facts, strategy)
    whole = recording(*events)
    found = parallel(whole, choose(whole), machine())
    assert found is not None
    assert cost(found).seconds == pytest.approx(0.03)
    assert found.exchange is not None
    assert (found.exchange.method, found.exchange.replicas) == ("MirroredStrategy", 2)
    assert found.exchange.waiting_ == Missing("one process runs all replicas")
    assert (found.expected, found.replicas, found.processes[0].host) == (1, 2, "box")
    assert whole_job(Loop("fit", batch_size=64), found).batch_size == 64


# ----------------------------------------------------------------------------- skew


def late(*processes: Rank, samples: tuple[Sample, ...] = ()) -> Parallel:
    whole = run(process(0, len(processes)))
    found = joined(processes, choose(whole), samples)
    assert found is not None
    return found


def four(**slow: Any) -> Parallel:
    """Four ranks, of which rank 2 is another."""
    others = [rank(number, local=measure(0.012)) for number in (0, 1, 3)]
    fields = {"local": measure(0.038), **slow}
    return late(others[0], others[1], rank(2, **fields), others[2])


def test_equal_ranks_have_no_straggler() -> None:
    assert late(*(rank(number) for number in range(4))).stragglers == ()


def test_a_rank_within_a_tenth_is_no_straggler() -> None:
    assert four(local=measure(0.0131)).stragglers == ()


def test_a_rank_behind_within_the_noise_is_no_straggler() -> None:
    noisy = Measure(0.016, 30, (), low=0.010, high=0.022)
    assert four(local=noisy).stragglers == ()


def test_a_quick_rank_makes_no_straggler_of_the_others() -> None:
    assert four(local=measure(0.004)).stragglers == ()


def test_a_late_rank_is_named_with_how_far_it_is_behind() -> None:
    (found,) = four().stragglers
    assert (found.rank, found.phase, found.cause) == (2, "step", "")
    assert found.behind_s == pytest.approx(0.026)
    assert found.share == pytest.approx(0.26)


def test_of_two_ranks_the_slower_one_is_late() -> None:
    (found,) = late(rank(0, local=measure(0.038)), rank(1, local=measure(0.012))).stragglers
    assert (found.rank, found.behind_s) == (0, pytest.approx(0.026))


@pytest.mark.parametrize(
    ("different", "cause"),
    [
        ({"batch_size": 64}, "its batch holds 64 samples, that of rank 0 32"),
        ({"threads": 1}, "it computes with 1 thread, rank 0 with 4"),
        ({"cores": (9,)}, "it may run on 1 core, rank 0 on 8"),
    ],
)
def test_what_is_different_about_a_late_rank_is_its_cause(
    different: dict[str, Any], cause: str
) -> None:
    (found,) = four(**different).stragglers
    assert found.cause == cause


def test_a_late_input_is_told_from_a_late_step() -> None:
    (found,) = four(input_=measure(0.030)).stragglers
    assert found.phase == "input"
    assert found.cause == "its input takes 30.0 ms a step, that of rank 0 10.0 ms"
    (found,) = four(input_=measure(0.020)).stragglers
    assert found.phase == "step"


def test_cores_that_another_rank_wants_are_a_cause() -> None:
    ranks = [rank(number, local=measure(0.012), cores=(number,)) for number in range(3)]
    slow = rank(3, local=measure(0.038), cores=(2,))
    (found,) = late(*ranks, slow).stragglers
    assert found.cause == "rank 2 may run on its cores as well"


def test_a_host_whose_ranks_are_all_late_is_a_cause() -> None:
    ranks = [
        rank(number, local=measure(0.038 if number > 2 else 0.012), host=f"node-{number // 3}")
        for number in range(5)
    ]
    first, second = late(*ranks).stragglers
    assert first.cause == second.cause == "all ranks on host node-1 are behind, and no others"


def test_a_gpu_with_a_slower_clock_is_a_cause_where_it_is_sure_whose_it_is() -> None:
    gpus = (
        GpuSample(0, sm_clock_mhz=1700, throttle=()),
        GpuSample(1, sm_clock_mhz=1100, throttle=("power cap",)),
    )
    samples = (Sample(0.0, None, gpus),)
    ranks = (
        rank(0, local=measure(0.012), device="cuda:1", gpu=0),
        rank(1, local=measure(0.038), device="cuda:0", gpu=1),
    )
    (found,) = late(*ranks, samples=samples).stragglers
    assert found.cause == "its GPU ran at 1100 MHz, that of rank 0 at 1700 (power cap)"
    for unsure in (None, 0):
        others = (ranks[0], replace(ranks[1], gpu=unsure))
        assert late(*others, samples=samples).stragglers[0].cause == ""


def test_the_gpu_of_a_rank_is_found_by_its_uuid_on_its_own_host() -> None:
    cards = (Gpu(0, "a GPU", uuid="GPU-11-bb"), Gpu(1, "a GPU", uuid="GPU-00-aa"))
    box = machine(gpus=cards)
    ranks = (
        rank(0, gpu_uuid="00-aa"),
        rank(1, gpu_uuid="22-cc"),
        rank(2),
        rank(3, gpu_uuid="11-bb", host="another"),
    )
    assert [one.gpu for one in on_gpus(ranks, box)] == [1, None, None, None]


def test_without_local_steps_a_late_input_is_seen_where_the_job_waits_for_it() -> None:
    def one(number: int, resident: float) -> Rank:
        slow = 0.050 if number == 1 else 0.010
        return rank(number, local=measure(None), input_=measure(slow), resident=measure(resident))

    (found,) = late(*(one(number, 0.060) for number in range(4))).stragglers
    assert (found.rank, found.phase, found.behind_s) == (1, "input", pytest.approx(0.040))
    assert late(*(one(number, 0.099) for number in range(4))).stragglers == ()


# --------------------------------------------------------------------------- scaling


def test_more_ranks_than_cores_are_noted() -> None:
    few = [process(number, 3, cores=[0, 1], device="CPU") for number in range(3)]
    assert any("3 ranks take turns on the 2 cores" in note for note in job(*few).notes)
    enough = [process(number, cores=[0, 1], device="CPU") for number in range(2)]
    assert not any("take turns" in note for note in job(*enough).notes)


def test_without_rates_steps_are_compared() -> None:
    found = job(process(0, extra=(EXCHANGE,)), process(1))
    scaled = with_scaling(found, [ScalingPoint(1, 0.05, None), ScalingPoint(2, 0.1, None)])
    assert scaled.scaling[1].efficiency == 0.5


def test_without_a_run_on_one_device_there_is_no_efficiency_and_the_reason_stays() -> None:
    found = job(process(0, extra=(EXCHANGE,)), process(1))
    scaled = with_scaling(found, [ScalingPoint(2, 0.1, 640.0)], "no time was left for one device")
    assert scaled.scaling[0].efficiency is None
    assert scaled.scaling_reason == "no time was left for one device"


@pytest.mark.parametrize(("threads", "cores"), [(2, [0, 1]), (None, [0, 1]), (4, [0, 1, 2])])
def test_replicas_that_share_cores_do_not_say_what_one_takes(
    threads: int | None, cores: list[int]
) -> None:
    fields: dict[str, Any] = {"device": "CPU", "threads": threads, "cores": cores}
    found = job(process(0, extra=(EXCHANGE,), **fields), process(1, **fields))
    assert isinstance(found.break_even_batch_, Missing)
    assert "share cores" in found.break_even_batch_.reason
    scaled = with_scaling(found, [ScalingPoint(1, 0.05, 640.0)])
    assert scaled.break_even_batch_ == pytest.approx(32 * 0.040 / 0.050)


def test_a_batch_of_unknown_size_has_no_break_even() -> None:
    unknown = {**FACTS, "batch_size": None}
    found = job(process(0, extra=(EXCHANGE,), facts=unknown), process(1, facts=unknown))
    assert found.break_even_batch_ == Missing("the size of a batch is not known")


# ------------------------------------------------------------------------------ many


def test_many_ranks_are_joined_as_few_are() -> None:
    ranks = [rank(number, local=measure(0.05)) for number in range(1024)]
    ranks[700] = rank(700, local=measure(0.08), input_=measure(0.05))
    whole = run(process(0, 1025, extra=({**EXCHANGE, "replicas": 1025},)))
    found = joined(ranks, choose(whole))
    assert found is not None
    assert (found.expected, found.absent, found.replicas) == (1025, (1024,), 1025)
    (straggler,) = found.stragglers
    assert (straggler.rank, straggler.phase) == (700, "input")
    assert cost(found).seconds == pytest.approx(0.02)


def test_uneven_shards_are_noted() -> None:
    short = process(1, facts={**FACTS, "epoch_steps": 97})
    (note,) = job(process(0), short).notes
    assert "rank 1 has 97 steps, one of rank 0 100" in note
    assert job(process(0), process(1)).notes == ()

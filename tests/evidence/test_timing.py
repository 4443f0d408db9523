"""The times of a step and between steps, and the use of the machine meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from recordings import FIT, block, observed, recording, steps
from trainperf.errors import NotMeasured
from trainperf.evidence.timing import (
    between_epochs,
    times,
    usage,
)
from trainperf.model import CudaDevice, Device, GpuSample, HostSample, Missing, PhaseUse, Sample


def drain(*marks, index=0):
    return {"e": "input", "b": index, "s": 0.0, "marks": [list(mark) for mark in marks]}


def blocks(phase, means, steps=10):
    return [block(phase, mean * steps, steps, index) for index, mean in enumerate(means)]


def test_one_slow_block_makes_neither_the_time_nor_the_interval_large():
    found = times(observed(FIT, *blocks("real", [0.13, 0.131, 4.2, 0.129, 0.13, 0.13]))).real_
    assert found.seconds == pytest.approx(0.13, rel=0.02)
    assert found.noise < 0.05


def beside(waits):
    """Rounds of real steps and what others kept them waiting in each, as sampled."""
    events, samples = [], []
    for index, share in enumerate(waits):
        seconds = 0.1 / (1 - share)
        events.append({**block("real", 5 * seconds, 5, index), "s": 10.0 * index})
        host = HostSample(1, 2, 0, 1, 1, threads_running=1 - share, threads_waiting=share,
                          others_cores=1e6)  # fmt: skip
        samples.append(Sample(10.0 * index + 0.2, host))
    return times(observed(FIT, *events), samples).real_


def test_rounds_beside_busy_neighbours_do_not_count_where_the_calm_ones_are_enough():
    found = beside([0.0, 0.5, 0.5, 0.0, 0.5, 0.0, 0.5, 0.5, 0.0, 0.0])
    assert found.seconds == pytest.approx(0.1)
    assert found.noise < 0.01
    assert found.disturbed == 5


def test_steps_inside_a_block_are_never_left_out():
    """Workers deliver four batches at a time: one step of four waits for all of them."""
    burst = [*steps("real", [0.9, 0.1, 0.1, 0.1]), block("real", 1.2, 4)]
    found = times(observed(FIT, *(each for _ in range(6) for each in burst)))
    assert found.real == pytest.approx(0.3)


def test_the_noise_of_waiting_is_that_of_neighbouring_blocks():
    slowing = [0.1, 0.12, 0.15, 0.2, 0.25, 0.3]
    waiting = blocks("resident", [0.8 * one for one in slowing])
    found = times(observed(FIT, *blocks("real", slowing), *waiting))
    assert found.noise > 0.2
    assert found.waiting_noise == pytest.approx(0.0, abs=1e-9)
    few = times(observed(FIT, *blocks("real", slowing), *waiting[:4]))
    assert few.waiting_noise is None
    assert times(observed(FIT, *blocks("real", slowing))).waiting_noise is None


def test_too_few_steps_are_no_measure_and_never_zero():
    found = times(observed(FIT, *steps("warmup", [8.0, 0.1])))
    assert isinstance(found.real_, Missing)
    with pytest.raises(NotMeasured, match="before the real phase"):
        _ = found.real


def test_one_step_of_many_seconds_is_a_rough_time_where_it_is_not_the_first():
    assert times(observed(FIT, *steps("warmup", [70.0, 39.0]))).real == 39.0
    update = {**FIT, "kind": "update"}  # seen from its second update on
    assert times(observed(update, *steps("warmup", [39.0]))).real == 39.0


def test_a_first_step_that_goes_on_with_what_a_drain_opened_is_no_restart():
    epoch, usual = {"e": "epoch"}, [block("real", 1.0, 10), *steps("real", [0.1] * 10)]
    after_a_drain = [epoch, drain((0.5, 1), (1.0, 9)), *steps("first", [0.11])]
    opening = [epoch, *steps("first", [2.1])]
    found = between_epochs(observed(FIT, *usual, *after_a_drain, *opening, *after_a_drain))
    assert found.restart_s == pytest.approx(2.0)
    assert between_epochs(observed(FIT, *usual, *after_a_drain)) is None


def test_the_first_of_several_epoch_ends_is_left_out():
    gaps = [{"e": "between", "s": s, "seconds": d} for s, d in ((10.0, 9.0), (30.0, 2.0))]
    evaluations = [{"e": "evaluate", "s": s, "seconds": d} for s, d in ((11.0, 8.0), (31.0, 1.5))]
    found = between_epochs(observed(FIT, *gaps, *evaluations, {"e": "facts", "epoch_steps": 20}))
    assert found.seconds == pytest.approx(2.0)
    assert found.validation_s == pytest.approx(1.5)
    assert (found.epochs_seen, found.epoch_steps) == (2, 20)


def test_the_last_call_of_an_epoch_holds_what_is_left_of_it():
    """20 batches at 16 a call are 2 calls of 10 on average, not of 16."""
    facts = {"e": "facts", "steps_per_execution": 16, "epoch_steps": 20}
    found = times(observed(FIT, facts, block("real", 1.0, 3)))
    assert found.real_.steps == 30
    assert isinstance(found.real_.steps, int)


REAL = {"e": "phase", "p": "real", "b": 0, "t": 10.0}
RESIDENT = {"e": "phase", "p": "resident", "b": 0, "t": 20.0}


def phases(*samples: Sample) -> dict[str, PhaseUse]:
    run = recording(FIT, REAL, RESIDENT, samples=samples)
    return {use.phase: use for use in usage(run, observed(FIT, REAL, RESIDENT))}


def gpu(*samples: GpuSample) -> dict[str, Any]:
    made = tuple(Sample(11.0 + number, None, (one,)) for number, one in enumerate(samples))
    return phases(*made)["real"].gpu[0]


def test_reasons_have_the_share_of_the_samples_that_gave_any_answer() -> None:
    found = gpu(
        GpuSample(0, throttle=("power cap", "power brake")),
        GpuSample(0, throttle=("power cap",)),
        GpuSample(0, throttle=()),
        GpuSample(0, throttle=()),
        GpuSample(0, throttle=None),
    )
    assert found["throttle_shares"] == {"power brake": 0.25, "power cap": 0.5}


def test_the_memory_of_a_card_is_not_that_of_a_slice() -> None:
    samples = (Sample(11.0, None, (GpuSample(0, memory_used=70),)),)
    run = recording(FIT, REAL, samples=samples)

    def peak(mig: bool) -> int | None:
        gpus = (CudaDevice(0, "A", index=0, mig=mig),)
        (use,) = usage(run, observed(FIT, REAL), Device("GPU", "A", 1, gpus))
        found: int | None = use.gpu[0]["memory_used_peak"]
        return found

    assert (peak(False), peak(True)) == (70, None)

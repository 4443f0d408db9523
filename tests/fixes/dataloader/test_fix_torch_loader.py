"""Promises of workers, and how many are offered."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.errors import NotMeasured
from trainperf.fixes.dataloader._loader import bound_without, cores_per_rank, fits_shm, made_s
from trainperf.fixes.dataloader.workers import (
    TorchWorkers,
    choices,
    maker_share,
    most_workers,
    workers_needed,
)
from trainperf.model import Equivalence, Evidence

COMPUTES = evidence_of("torch_slow_transform")
"""Without workers, on two cores: a step of 6 ms waits for items that take 19 ms of computing."""


def computes(fields: str) -> Evidence:
    return evidence_of(f"torch_slow_transform | {fields}")


def waits(fields: str) -> Evidence:
    """Two workers, whose items take 108 ms and a tenth of a core."""
    return evidence_of(f"seed_torch_waiting_items | {fields}")


def test_without_stages_a_loader_without_workers_takes_what_draining_it_took() -> None:
    assert made_s(computes("stages = missing")) == COMPUTES.times.input


def test_no_part_of_a_batch_saves_more_than_a_step_waits() -> None:
    undrained = waits("times.input = missing")
    free = undrained.times.real / undrained.times.resident
    assert bound_without(undrained, 0.2) == pytest.approx(free)
    assert bound_without(waits("times.resident = missing; times.input = missing"), 0.2) > free


def test_without_stages_nobody_knows_what_one_of_several_workers_takes() -> None:
    with pytest.raises(NotMeasured):
        made_s(waits("stages = missing"))


def test_at_most_four_numbers_are_offered_and_the_need_is_among_them() -> None:
    case = computes(
        "machine.cores = 64; times.input = 0.2; stages[dataset item].seconds_per_step = 0.12"
    )
    offered = choices(case, 1, 64)

    assert workers_needed(case) == 19
    assert 19 in offered
    assert len(offered) == 4


def test_workers_that_compute_are_no_more_than_the_cores() -> None:
    assert most_workers(COMPUTES) == 2
    assert most_workers(computes("use = []")) == 2  # nobody knows
    assert most_workers(computes("machine.cores = 4; use[input].cpu_cores = 0.6")) == 4


def test_workers_that_wait_may_be_more_than_the_cores_up_to_twice_the_need() -> None:
    case = waits("stages[dataset item].seconds_per_step = 0.03")
    assert workers_needed(case) == 6
    assert most_workers(case) == 12
    assert max(choices(case, 1, 12)) > 2


def test_workers_that_wait_leave_half_of_the_cores_idle() -> None:
    assert most_workers(computes("use[input].cpu_cores = 0.2")) == 5  # 5 × 0.2 are half of 2 cores


def test_what_each_maker_uses_is_shared_among_workers_and_ranks() -> None:
    assert maker_share(waits("use[input].cpu_cores = 0.8")) == pytest.approx(0.4)
    ranks = waits("use[input].cpu_cores = 0.8; facts.local_world_size = 2")
    assert maker_share(ranks) == pytest.approx(0.2)
    with pytest.raises(NotMeasured):
        maker_share(waits("use[input].samples = 2"))


def test_no_number_is_offered_whose_batches_do_not_fit_into_shared_memory() -> None:
    case = computes("machine.cores = 16; machine.shm_free = 3e6")

    assert max(choices(case, 1, 16)) == 2
    assert not fits_shm(case, 4, 2)


def test_the_cores_are_shared_among_the_ranks_of_the_machine() -> None:
    assert cores_per_rank(computes("machine.cores = 8; facts.local_world_size = 4")) == 2
    assert cores_per_rank(computes("machine.cores = 8; facts.local_world_size = null")) == 8


@pytest.mark.parametrize("field", ["random = true", "random = null", 'sampler = "Balanced"'])
def test_random_items_and_samplers_of_the_users_do_not_keep_the_order(field: str) -> None:
    exact, other = (
        TorchWorkers().look(case) for case in (COMPUTES, computes(f"torch.loaders[0].{field}"))
    )
    assert exact is not None
    assert other is not None
    assert (exact.equivalence, other.equivalence) == (Equivalence.EXACT, Equivalence.NUMERICS)

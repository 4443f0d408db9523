"""Bounds are bounds: the noise of times and probes does not make them too low."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes import by_id
from trainperf.fixes.findings import findings_to_try, shown_findings, with_free_input
from trainperf.model import Finding


def found(id_: str, case: str) -> Finding:
    (finding,) = shown_findings(evidence_of(case), among=[by_id()[id_]])
    return finding


EXACT = "times.real = 0.144 ± 0.0"


@pytest.mark.parametrize(
    ("exact", "noisy"),
    [
        (f"{EXACT}; probes.autocast = 1.8 ± 0.0", f"{EXACT}; probes.autocast = 1.8 ± 0.3"),
        (EXACT, "times.real = 0.144 ± 0.02"),
    ],
)
def test_noise_raises_what_may_be_hoped_for_and_not_what_is_said(exact: str, noisy: str) -> None:
    calm, loud = (found("torch_autocast", f"torch_memmap_gpt | {laid}") for laid in (exact, noisy))
    assert loud.bound == pytest.approx(calm.bound)
    assert loud.at_best > calm.at_best


def test_what_is_only_tried_promises_no_more_than_the_verdict() -> None:
    case = evidence_of("seed_rnn_series")
    (cache,) = findings_to_try(case, found=(), among=[by_id()["tf_cache"]])
    assert cache.bound == pytest.approx(case.times.real / case.times.resident)
    assert cache.at_best > cache.bound


def test_what_the_input_hides_is_priced_as_if_it_were_free() -> None:
    """A `PyDataset` makes each batch in 31 ms, while the step of 1 ms before it runs."""
    case = evidence_of("loop_pydataset")
    free = with_free_input(case)
    assert free is not None
    steps = [by_id()["keras_steps_per_execution"]]
    assert findings_to_try(case, (), among=steps) == ()
    (hidden,) = findings_to_try(free, (), among=steps)
    assert hidden.bound > 1.2
    assert with_free_input(evidence_of("healthy")) is None


def test_a_probe_that_takes_longer_than_the_step_saves_no_more_than_the_step() -> None:
    laid = "times.real = 0.001; probes.double_batch.base_s = 1"
    case = evidence_of(f"seed_torch_tiny_layers | {laid}")
    probe = case.probe("double_batch")
    (batch,) = shown_findings(case, among=[by_id()["batch_size"]])
    assert batch.bound == pytest.approx(probe.ratio)


def test_what_may_be_lost_to_waiting_keeps_to_what_neighbouring_blocks_allow() -> None:
    loud = "torch_slow_transform | times.real = 0.1 ± 0.04; times.resident = 0.098 ± 0.04"
    alone, paired = evidence_of(f"{loud}; times.waiting_noise = null"), evidence_of(loud)
    assert alone.favourable().utilization < paired.favourable().utilization
    assert paired.favourable().utilization <= paired.utilization


def test_the_bound_of_a_step_says_so_where_steps_are_the_smaller_part() -> None:
    case = evidence_of("predict_between_fits")
    said = {one.id: one.bound_basis for one in (*shown_findings(case), *findings_to_try(case, ()))}
    assert "of the steps, which take 1.4 % of the time" in said["keras_steps_per_execution"]
    assert "of the steps" not in said["keras_predict_in_loop"]


def tried(id_: str, case: str) -> Finding:
    (finding,) = findings_to_try(evidence_of(case), found=(), among=[by_id()[id_]])
    return finding


def test_what_takes_time_of_the_input_as_well_is_not_limited_by_it() -> None:
    case = 'torch_slow_transform | collections = {"seconds": 0.02, "full": 1.0}'
    real = evidence_of(case).times.real
    assert found("garbage_collection", case).bound == pytest.approx(real / (real - 0.02))


def test_what_a_line_takes_of_a_step_gives_no_more_than_its_input_leaves() -> None:
    case = "growing_graph | times.input = 0.01 ± 0.0005"
    growing, times = found("torch_growing_graph", case), evidence_of(case).times
    assert growing.bound == pytest.approx(times.real / times.input)
    assert growing.at_best < 1.1 * growing.bound


def test_what_nobody_timed_is_limited_by_the_middle_and_at_best_by_the_end_of_the_noise() -> None:
    case = "loop_pydataset | times.input = missing"
    items, times = tried("keras_pydataset_items", case), evidence_of(case).times
    assert items.bound == pytest.approx(times.real / times.resident)
    assert items.at_best > items.bound
    laid = "times.real = 0.01 ± 0.001; times.resident = 0.007 ± 0.0; times.input = 0.003 ± 0.0"
    unprobed = replace(evidence_of(f"loop_numpy_fit | {laid}"), probes={})
    (compiled,) = findings_to_try(unprobed, found=(), among=[by_id()["keras_jit_compile"]])
    assert compiled.bound == pytest.approx(10 / 3)
    assert compiled.at_best >= compiled.bound


def test_what_is_only_tried_says_the_times_that_were_measured() -> None:
    laid = 'times.real = 0.1 ± 0.05; torch.flags = {"threads": 5, "omp_num_threads": 5}'
    case = f"torch_healthy | {laid}; machine.affinity_cores = 4"
    assert "100 ms" in tried("omp_threads", case).text


def test_a_model_in_float64_is_told_where_its_steps_could_not_be_taken_apart() -> None:
    whole = found("torch_float64", 'numpy_doubles | torch.split = missing "they took 11.3 ms each"')
    assert whole.bound > found("torch_float64", "numpy_doubles").bound > 1.5

"""Bounds are bounds: the noise of times and probes does not make them too low."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.diagnose.judging import at_most
from trainperf.fixes import by_id


def bound(case: str) -> float:
    evidence = evidence_of(case)
    (found,) = at_most((by_id()["torch_autocast"].detect(evidence),), evidence)
    return found.bound


@pytest.mark.parametrize(
    ("exact", "noisy"),
    [
        ("probes.autocast = 1.8 ± 0.0", "probes.autocast = 1.8 ± 0.3"),
        ("times.real = 0.144 ± 0.0", "times.real = 0.144 ± 0.02"),
    ],
)
def test_a_bound_is_that_of_the_favourable_end_of_an_interval(exact: str, noisy: str) -> None:
    assert bound(f"torch_memmap_gpt | {exact}") < bound(f"torch_memmap_gpt | {noisy}")


def test_what_may_be_lost_to_waiting_keeps_to_what_neighbouring_blocks_allow() -> None:
    loud = "torch_slow_transform | times.real = 0.1 ± 0.04; times.resident = 0.098 ± 0.04"
    alone, paired = evidence_of(f"{loud}; times.waiting_noise = null"), evidence_of(loud)
    assert alone.favourable().utilization < paired.favourable().utilization
    assert paired.favourable().utilization <= paired.utilization

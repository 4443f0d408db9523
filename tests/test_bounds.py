"""Bounds are bounds: the noise of times and probes does not make them too low."""

import pytest

from fixes.case_text import evidence_of
from trainperf.diagnose.judging import at_most
from trainperf.fixes import by_id


def bound(id_: str, case: str) -> float:
    evidence = evidence_of(case)
    (found,) = at_most((by_id()[id_].detect(evidence),), evidence)
    return found.bound


@pytest.mark.parametrize(
    ("id_", "case", "noise"),
    [
        ("torch_autocast", "torch_memmap_gpt | probes.autocast = 1.8 ± {}", 0.36),
        ("tf_map_parallel", "slow_images | times.real = 0.036 ± {}", 0.006),
    ],
)
def test_a_bound_is_that_of_the_favourable_end(id_: str, case: str, noise: float) -> None:
    assert bound(id_, case.format(noise)) > bound(id_, case.format(0))


def test_what_may_be_lost_to_waiting_keeps_to_what_neighbouring_blocks_allow() -> None:
    wide = "times.real = 0.1 ± 0.04; times.resident = 0.098 ± 0.04; times.waiting_noise = {}"
    case, paired = (evidence_of(f"torch_healthy | {wide.format(at)}") for at in ("null", 0.01))
    assert case.favourable().utilization < paired.favourable().utilization <= paired.utilization

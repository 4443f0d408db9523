"""Bounds are bounds: the noise of times and probes does not make them too low."""

from dataclasses import replace

from kit.evidence import probe
from kit.torch_evidence import torch_evidence
from trainperf.diagnose.judging import at_most
from trainperf.fixes import by_id
from trainperf.model import Measure

FLAGS = {"bf16_cpu": True}


def noisy(case, share):
    def loud(measure):
        return replace(
            measure, low=measure.seconds * (1 - share), high=measure.seconds * (1 + share)
        )

    times = case.times
    assert isinstance(times.real_, Measure)
    return replace(
        case, times=replace(times, real_=loud(times.real_), resident_=loud(times.resident_))
    )


def bound(case):
    (found,) = at_most((by_id()["torch_autocast"].detect(case),), case)
    return found.bound


def test_a_bound_by_a_probe_is_that_of_the_upper_end_of_its_interval():
    exact = torch_evidence(flags=FLAGS, probes={"autocast": probe(1.8, spread=0.0)})
    wide = torch_evidence(flags=FLAGS, probes={"autocast": probe(1.8, spread=0.2)})
    assert bound(wide) > bound(exact)


def test_a_bound_by_times_is_that_of_their_favourable_end():
    case = torch_evidence(flags=FLAGS, probes={"autocast": probe(1.8)})
    assert bound(noisy(case, 0.02)) >= bound(case)


def test_what_may_be_lost_to_waiting_keeps_to_what_neighbouring_blocks_allow():
    case = noisy(torch_evidence(flags=FLAGS), 0.4)
    paired = replace(case, times=replace(case.times, waiting_noise=0.01))
    assert case.favourable().utilization < paired.favourable().utilization
    assert paired.favourable().utilization <= paired.utilization

from dataclasses import replace

import pytest

from reporters.samples import INPUT_BOUND as SAMPLE
from reporters.samples import over, timed
from trainperf.commands.outputs import exit_status
from trainperf.model import Ending, Loop, Outcome, Stack, Trial

INPUT_BOUND = replace(SAMPLE, trials=(), stack=None)
CACHE, MAP = (finding.id for finding in INPUT_BOUND.findings)  # bounds 3.97 and 2.1


def test_a_run_without_a_loop_or_without_a_step_ends_with_2():
    assert exit_status(over(INPUT_BOUND, loop=Loop(""))) == 2
    assert exit_status(timed(INPUT_BOUND, real=None)) == 2
    failed = over(INPUT_BOUND, loop=Loop(""), ending=Ending.FAILED)
    assert exit_status(failed) == 3


@pytest.mark.parametrize(
    ("fail_on", "status"), [("none", 0), ("any", 1), (1.2, 1), (3.9, 1), (4.1, 0)]
)
def test_fail_on_looks_at_the_findings(fail_on, status):
    assert exit_status(INPUT_BOUND, fail_on) == status


def trial(fix, outcome, speedup=None):
    return Trial(fix, outcome, "", speedup=speedup, kept=outcome is Outcome.KEPT)


def failing(fail_on, *trials, stack=None):
    made = None
    if stack is not None:
        made = Stack((MAP, CACHE), stack, stack, stack, 9, 99, 0.1, 0.1)
    tried = replace(INPUT_BOUND, trials=trials, stack=made)
    return exit_status(tried, fail_on) == 1


def test_a_measured_speed_up_counts_and_not_the_bound():
    kept = trial(MAP, Outcome.KEPT, 1.5), trial(CACHE, Outcome.KEPT, 1.4)
    assert failing(1.5, *kept)
    assert not failing(1.6, *kept)
    assert failing(2.0, *kept, stack=2.1)
    assert not failing(2.2, *kept, stack=2.1)


def test_what_was_tried_without_effect_does_not_count():
    nothing = trial(MAP, Outcome.NO_EFFECT, 1.01), trial(CACHE, Outcome.SLOWER, 0.8)
    assert not failing(1.0, *nothing)
    assert not failing("any", *nothing)
    assert failing("any", nothing[0])


@pytest.mark.parametrize("outcome", [Outcome.NOT_TRIED, Outcome.FAILED])
def test_what_was_not_measured_counts_with_its_bound(outcome):
    others = trial(MAP, Outcome.NO_EFFECT), trial(CACHE, outcome)
    assert failing(3.9, *others)
    assert not failing(4.1, *others)

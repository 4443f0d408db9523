"""A gain's few words: what was measured, of what, and beside what was predicted."""

from __future__ import annotations

from dataclasses import replace

from reporters.samples import CACHE, HEALTHY
from trainperf.model import Outcome, Trial
from trainperf.report import level
from trainperf.report.sections.findings import gives
from trainperf.reporters import markdown


def test_a_measurement_beyond_its_bound_is_said_with_its_interval():
    noisy = replace(CACHE, bound=1.56, at_best=1.7)
    trial = Trial(CACHE.id, Outcome.NO_EFFECT, "", 1.57, 1.1, 2.3, 2, bound=1.56)
    assert level.predicted(noisy, trial) == "predicted at most 1.56×, within that interval"
    above = replace(trial, low=1.6)
    assert level.predicted(noisy, above) == "predicted at most 1.56×, within its noise"
    above = replace(trial, low=1.8)
    assert level.predicted(noisy, above) == "predicted at most 1.56×, which was too low"
    assert level.predicted(noisy, replace(trial, speedup=1.5)) == "predicted at most 1.56×"


def test_what_a_speed_up_is_of_stands_beside_it_in_every_report():
    whole = Trial(CACHE.id, Outcome.KEPT, "", 1.5, 1.4, 1.6, 2, kept=True, basis="whole runs")
    tried = replace(HEALTHY, findings=(CACHE,), trials=(whole,))
    said = ", the whole script in 2 runs each"
    assert said in gives(CACHE, tried)
    assert said in markdown.render(tried)
    assert said not in gives(CACHE, replace(tried, trials=(replace(whole, basis="steps"),)))

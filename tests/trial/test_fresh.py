import time
from contextlib import nullcontext

import pytest

from kit.legs import LOOP, PLAIN, base_run, bench, changed, clock, queue, repeated, written
from trainperf.model import Outcome
from trainperf.trial import budget, fresh
from trainperf.trial.budget import Clock
from trainperf.trial.fresh import FreshProcesses, Process
from trainperf.trial.legs.faults import LegFailed, OutOfTime
from trainperf.trial.legs.leg import Slice
from trainperf.trial.outcome import Start, trial
from trainperf.trial.parity import Losses

LOSSES = Losses("loss", {n: 2.0 / n for n in range(1, 21)}, "fit")


def process(step_s=0.1, slices=8, failure="", first_step_s=5.0):
    made = tuple(Slice(3 * step_s * (1 + 0.002 * n), 3, 3.0, 1e-6) for n in range(slices))
    failed = LegFailed(failure) if failure else None
    return Process(None, made, LOSSES, Start(first_step_s), failed)


class Written(FreshProcesses):
    """An engine whose processes are written down beforehand; then the time is over."""

    def __init__(self, folder, *processes):
        script = written(folder, PLAIN.format(0.01))
        self.left = list(processes)
        self.time = Clock(1000.0, lambda: not self.left, lambda: 0.0)
        self._run_of = base_run(script)
        self.script = script
        self.started = []
        made = bench(self._run_of, folder)
        super().__init__(made, nullcontext())

    def process(self, candidate, clock, most=8):
        self.started.append(candidate.name)
        return self.left.pop(0) if self.left else Process(None, (), None, None, OutOfTime())

    def compare_all(self, *names):
        fixes = [changed(self._run_of, self.script, "", name) for name in names]
        return self.compare(fixes, self.time)


def test_a_drift_from_process_to_process_cancels_and_widens_the_interval(tmp_path):
    drifting = [process(0.10), process(0.055), process(0.060), process(0.13)]
    ((found),) = Written(tmp_path, *drifting, process()).compare_all("b")
    halves = 0.10 / 0.055, 0.13 / 0.060
    assert found.ratio.low <= min(halves) + 1e-6
    assert found.ratio.high >= max(halves) - 1e-6
    assert 1.9 < found.ratio.speedup < 2.1
    assert found.ratio.pairs == 16


def test_a_candidate_that_fails_is_not_started_twice_and_the_next_is_tried(tmp_path):
    broken = process(slices=0, failure="fails: ValueError: no")
    engine = Written(tmp_path, process(), broken, *[process(0.05)] * 2, process(), process())
    bad, good = engine.compare_all("bad", "good")
    assert engine.started == ["", "bad", "good", "good", ""]
    assert (str(bad.failure), bad.ratio) == ("fails: ValueError: no", None)
    assert good.ratio.speedup == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("last", ["no slice", "few slices"])
def test_whenever_the_time_is_over_nothing_crashes_and_nothing_half_is_told(tmp_path, count, last):
    cut = process(0.05 if count % 4 in (2, 3) else 0.1, slices=0 if last == "no slice" else 1)
    order = [process(), process(0.05), process(0.05), process(), process(0.05)]
    engine = Written(tmp_path, *order[: count - 1], cut)
    if count == 1 and last == "no slice":
        with pytest.raises(LegFailed, match="the time was over"):
            engine.compare_all("b", "c")
        return
    one, other = engine.compare_all("b", "c")
    baseline = engine.baseline()
    assert baseline.step_s == pytest.approx(0.1, rel=0.02)
    assert trial(other, baseline).outcome is Outcome.NOT_TRIED
    if count < 4 or (count == 4 and last == "no slice"):
        assert one.ratio is None
        assert trial(one, baseline).outcome is Outcome.NOT_TRIED
    elif count == 5:
        assert one.ratio.speedup == pytest.approx(2.0, rel=0.01)


def test_the_unchanged_processes_are_the_control_of_each_other(tmp_path):
    order = [process(0.10), process(0.05), process(0.05), process(0.11), process()]
    engine = Written(tmp_path, *order)
    engine.compare_all("b")
    control = engine.baseline().control
    assert control.speedup == pytest.approx(0.10 / 0.11, rel=0.01)
    assert control.floor >= 0.08
    assert control.reproducible is True


# ------------------------------------------------------------------- real processes


@pytest.fixture
def short(monkeypatch, nothing_left):
    """Few and short slices: what is tested is that it works, not how well it measures."""
    monkeypatch.setattr(budget, "SLICE_S", 0.1)
    monkeypatch.setattr(fresh, "SLICES", 4)


@pytest.mark.alone
@pytest.mark.usefixtures("short")
@repeated
def test_a_step_of_half_the_length_reads_two_and_one_that_fails_is_named(tmp_path):
    script = written(tmp_path, PLAIN.format(0.02))
    run = base_run(script)
    crashing = LOOP + "train(lambda n: 1 / (n < 12) and time.sleep(0.02))"
    fixes = [
        changed(run, script, PLAIN.format(0.01), "half"),
        changed(run, script, crashing, "bad"),
    ]
    with queue(run, tmp_path, slots=1) as engine:
        half, bad = engine.compare(fixes, clock())
        baseline = engine.baseline()
    assert engine.legs == 5
    assert 1.5 < half.ratio.speedup < 2.4
    assert half.ratio.low <= half.ratio.speedup <= half.ratio.high
    assert half.pairs == ()
    assert half.start.seconds > 0
    assert "fails: ZeroDivisionError" in str(bad.failure)
    assert baseline.control is not None
    assert baseline.step_s > 0.018
    assert not list((tmp_path / "runs" / "alone").iterdir())


@pytest.mark.script
@pytest.mark.usefixtures("short")
def test_an_interrupt_between_two_processes_leaves_nothing_running(tmp_path):
    script = written(tmp_path, PLAIN.format(0.02))
    run = base_run(script)
    over = clock(60.0, lambda: engine.legs >= 2)
    began = time.monotonic()
    with queue(run, tmp_path, slots=1) as engine:
        (found,) = engine.compare([changed(run, script, PLAIN.format(0.01))], over)
    assert found.ratio is None
    assert found.late
    assert engine.baseline().control is None
    assert time.monotonic() - began < 60  # the time that it was given
    assert not list((tmp_path / "runs" / "alone").iterdir())

"""Alternating blocks: both sides do equally many steps, and neither always goes first; memory."""

import itertools
from types import SimpleNamespace

from trainperf.child.timing import probing
from trainperf.child.timing.device import HostClock
from trainperf.child.timing.probing import BLOCKS, alternate


def _alternated(monkeypatch, base_s, candidate_s, deadline=100.0):
    """Run it on a clock that only the two sides move on; the event, and who was called."""
    now, called, events = [0.0], [], []

    def side(name, seconds):
        def call():
            now[0] += seconds() if callable(seconds) else seconds
            called.append(name)

        return call

    monkeypatch.setattr(probing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    record = SimpleNamespace(write=lambda e, **f: events.append((e, f)), flush=lambda: None)
    driver = SimpleNamespace(
        record=record, sync=lambda: None, device=HostClock(lambda: now[0]), world=None
    )
    base, candidate = side("base", base_s), side("candidate", candidate_s)
    alternate(driver, "faster", deadline, base, candidate, 1, k=7)
    ((kind, fields),) = events
    assert kind == "probe"
    return fields, called


def test_turns_go_on_while_their_ratio_is_not_decided(monkeypatch):
    noise = itertools.cycle([0.7, 1.4, 1.0, 1.3, 0.8])
    fields, _ = _alternated(monkeypatch, lambda: 0.1 * next(noise), 0.09)
    assert len(fields["base"]) > 3 * BLOCKS


def test_a_ratio_that_noise_leaves_open_takes_no_longer_than_its_share(monkeypatch):
    noise = itertools.cycle([0.2, 3.0, 1.0])
    fields, called = _alternated(monkeypatch, lambda: 0.2 * next(noise), 0.2, deadline=1e6)
    assert BLOCKS < len(fields["base"]) <= probing.MOST_BLOCKS
    usual = 2 * BLOCKS * 0.2
    assert 0.2 * len(called) < 2 * probing.NOISY * usual


def test_the_file_cache_of_a_container_counts_as_free(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 300\n")
    monkeypatch.setattr(probing, "CGROUP", str(tmp_path))
    assert probing.available() == 400

"""A bench leaves nothing behind where trainperf is killed."""

from types import SimpleNamespace

from legs import base_run, bench
from trainperf.trial.bench import CACHES, guarded, start_of


def test_what_legs_compiled_goes_where_trainperf_is_killed(tmp_path):
    made = bench(base_run(tmp_path / "train.py"), tmp_path)
    guard = guarded(made)
    (made.folder / CACHES / "inductor").mkdir(parents=True)
    guard._process.stdin.close()  # as the kernel does when trainperf is gone
    guard._process.wait(30)
    assert made.folder.exists()
    assert not (made.folder / CACHES).exists()


def test_waiting_for_a_device_is_no_part_of_a_start():
    update = {"e": "first_update", "t": 30.0, "cpu": 2.0}
    leg = SimpleNamespace(trained=[update], started_s=10.0, waited_s=15.0)
    assert start_of(leg).seconds == 5.0
    assert start_of(SimpleNamespace(trained=[])) is None


def test_a_start_goes_up_to_the_first_slice_where_there_was_one():
    events = [
        {"e": "first_update", "t": 30.0, "cpu": 2.0},
        {"e": "leg", "t": 41.0, "steps": 6, "steps_per_call": 4, "cpu": 9.0},
    ]
    leg = SimpleNamespace(trained=events, started_s=10.0, waited_s=15.0, work_per_step=4.0)
    start = start_of(leg)
    assert (start.seconds, start.ready_s, start.steps, start.cpu_s) == (5.0, 16.0, 24.0, 9.0)
    assert start.lead_s(0.5) == 4.0

"""Starting, following and stopping a run; the scripts here need no framework."""

import pytest

from kit.processes import LONG_S, events, observed, python, script
from trainperf.model import Ending, Run
from trainperf.run.launch import _Following, launch

pytestmark = pytest.mark.script

WRITES = """
import json, os, sys, time
folder = json.load(open(os.environ["TRAINPERF_RUN"]))["folder"]
path = os.path.join(folder, f"events-{{os.getpid()}}.jsonl")
def say(kind, **fields):
    with open(path, "a") as file:
        print(json.dumps({{"e": kind, "t": time.monotonic(), **fields}}), file=file, flush=True)
{rest}
"""


def writes(folder, rest):
    return script(folder, WRITES.format(rest=rest))


@pytest.fixture
def run(tmp_path, nothing_left):
    def start(source, **settings):
        writes(tmp_path, source)
        return observed(python("script.py"), tmp_path, tmp_path / "run", **settings)

    return start


def test_a_script_that_ends_is_recorded_with_its_status_and_output(run):
    recording = run("print('last words'); sys.exit(4)")
    assert (recording.ending, recording.exit_status) == (Ending.FAILED, 4)
    assert recording.output_tail == "last words\n"
    assert recording.ended > recording.started


def test_a_script_that_is_measured_is_stopped_at_once(run):
    recording = run("say('done'); time.sleep(1000)")
    assert recording.ending is Ending.MEASURED
    assert recording.ended - recording.started < LONG_S


def test_events_reach_the_listener_while_the_script_runs(tmp_path, nothing_left):
    waits = "while not os.path.exists('heard one'): time.sleep(0.01)"
    writes(tmp_path, f"say('one')\n{waits}\nsay('done')\ntime.sleep(1000)")
    heard = []

    def hears(event):
        heard.append(event["e"])
        (tmp_path / f"heard {event['e']}").touch()

    recording = launch(
        Run(python("script.py"), str(tmp_path), "script.py", budget_s=LONG_S),
        tmp_path / "run",
        hears,
    )
    assert recording.ending is Ending.MEASURED
    assert [kind for kind in heard if kind != "hello"] == ["one", "done"]


@pytest.mark.parametrize("source", ["say('first_update')", "pass"])
def test_the_budget_is_hard_also_before_the_first_step(run, source):
    recording = run(f"{source}; time.sleep(1000)", budget_s=1.0)
    assert recording.ending is Ending.OUT_OF_BUDGET


def test_host_samples_stand_on_the_clock_of_the_events(run):
    recording = run("say('one'); time.sleep(1.5); say('two')")
    first, last = events(recording, "one")[0]["t"], events(recording, "two")[0]["t"]
    assert any(first < sample.t < last for sample in recording.samples)
    assert all(recording.started <= sample.t <= recording.ended for sample in recording.samples)


def test_temporary_files_of_a_stopped_process_are_removed(run):
    source = """
import tempfile
from importlib.util import cache_from_source
made = tempfile.NamedTemporaryFile(prefix="__autograph_generated_file", suffix=".py", delete=False)
os.mkdir(os.path.dirname(cache_from_source(made.name)))
open(cache_from_source(made.name), "w").close()
say("made", name=made.name)
say("made", name="/no/such/__autograph_generated_file.py")
say("done")
time.sleep(1000)
"""
    assert run(source).ending is Ending.MEASURED  # nothing_left looks at the folder


# ------------------------------------------------------------------ reading event files


@pytest.fixture
def following(tmp_path):
    return _Following(Run(("x",), ".", "x", extra_s=5.0), tmp_path, lambda event: None)


def append(folder, text, pid=7):
    with (folder / f"events-{pid}.jsonl").open("a", encoding="utf-8") as file:
        file.write(text)


def test_a_line_that_is_half_written_is_read_when_it_is_whole(following, tmp_path):
    append(tmp_path, '{"e": "one", "t": 1}\n{"e": "tw')
    following.read()
    assert [event["e"] for event in following.events[7]] == ["one"]
    append(tmp_path, 'o", "t": 2}\n')
    following.read()
    following.read()
    assert [event["e"] for event in following.events[7]] == ["one", "two"]


def test_a_line_that_is_no_json_is_passed_over_and_named_once(following, tmp_path):
    append(tmp_path, 'not json\n\n{"e": "one", "t": 1}\n[]\n')
    following.read()
    note, one = following.events[7]
    assert one["e"] == "one"
    assert note["text"] == "events-7.jsonl holds what no run writes: that was left out"


def test_a_process_that_lost_its_disk_ends_the_run_with_a_note(following, tmp_path):
    (tmp_path / "lost-7-28").touch()
    following.read()
    following.read()
    (note,) = following.events[7]
    assert "No space left on device" in note["text"]
    assert following.must_stop() is Ending.MEASURED


def test_measurements_that_overrun_their_time_are_ended(following, tmp_path):
    append(tmp_path, '{"e": "facts", "t": 1}\n')
    following.read()
    following.extras_from -= 5.0 + 15.0 + 1.0
    assert following.must_stop() is Ending.MEASURED


def test_an_epochs_end_that_was_seen_once_is_waited_for_again(following, tmp_path):
    append(tmp_path, '{"e": "measured", "t": 1}\n')
    following.read()
    following.measured -= 9.0
    append(tmp_path, '{"e": "between", "t": 1, "seconds": 8.0}\n')
    following.read()
    following.measured -= 10.0
    assert following.must_stop() is None
    following.measured -= 4.0
    assert following.must_stop() is Ending.MEASURED


def test_a_run_that_was_measured_is_no_run_out_of_budget(tmp_path):
    run = Run(("x",), ".", "x", budget_s=1e-6)
    following = _Following(run, tmp_path, lambda event: None)
    assert following.must_stop() is Ending.OUT_OF_BUDGET
    append(tmp_path, '{"e": "measured", "t": 1}\n{"e": "cycles", "t": 1, "limit_s": 30.0}\n')
    following.read()
    assert following.must_stop() is Ending.MEASURED

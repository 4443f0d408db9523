import pytest

from recordings import FIT, block, recording, steps
from trainperf.evidence.events import NoLoop, choose


def test_the_loop_that_was_measured_wins_over_one_with_more_steps():
    short = {**FIT, "kind": "iterator"}
    chosen = choose(recording(FIT, *steps("warmup", [0.1] * 40), short, block("real", 1.0, 4)))
    assert chosen.start["kind"] == "iterator"


def test_facts_of_a_loop_do_not_come_from_another():
    facts = {"e": "facts", "batch_size": 8}
    chosen = choose(recording(FIT, facts, FIT, *steps("real", [0.1])))
    assert chosen.facts == {}
    assert chosen.steps_per_call == 1


@pytest.mark.parametrize(
    ("events", "message", "hint", "seen"),
    [
        ([], "no Python process", "PYTHONPATH", "no process loaded the observer"),
        ([{"e": "hello"}], "never imported a framework", "the script that trains", "no weights"),
        (
            [{"e": "hello"}, {"e": "import", "name": "tensorflow", "version": "2.21.0"}],
            "no step that updates weights",
            "with these arguments",
            "TensorFlow 2.21.0 was imported",
        ),
        (
            [{"e": "hello"}, {"e": "first_update"}, {"e": "evaluate"}],
            "no training loop",
            "",
            "weights were updated, but not in a loop",
        ),
        ([{"e": "hello"}, {"e": "evaluate"}, {"e": "evaluate"}], "", "", "2 evaluations"),
        (
            [{"e": "hello"}, {"e": "error", "type": "OSError", "text": "gone"}],
            "",
            "",
            "it ended with OSError: gone",
        ),
    ],
)
def test_without_a_loop_it_is_said_what_was_seen_instead(events, message, hint, seen):
    with pytest.raises(NoLoop) as caught:
        choose(recording(*events))
    assert message in str(caught.value)
    assert hint in caught.value.hint
    assert any(seen in line for line in caught.value.seen)


def said(*events):
    with pytest.raises(NoLoop) as caught:
        choose(recording({"e": "hello"}, *events))
    return caught.value


IMPORT = {"e": "import", "name": "tensorflow", "version": "2.21.0"}
JAX = {"e": "unsupported", "name": "JAX", "version": "0.7.1"}


def test_sessions_of_tensorflow_1_are_recognised_as_what_is_not_observed():
    error = said(IMPORT, {"e": "sessions", "where": {"file": "/x/train.py", "line": 12}})
    assert "trains with TensorFlow 1's sessions" in str(error)
    assert "sessions were run, at /x/train.py:12" in error.seen
    assert not any("no weights" in one for one in error.seen)


def test_a_framework_that_is_not_observed_is_named_unless_something_else_imported_it():
    assert "imported JAX 0.7.1, which trainperf does not observe" in str(said(JAX))
    keras = {"e": "unsupported", "name": "Keras on jax", "version": ""}
    assert "imported Keras on jax, which" in str(said(IMPORT, keras, keras))
    assert "no step that updates weights" in str(said(IMPORT, JAX))


def test_graphs_whose_updates_cannot_be_seen_are_named():
    pytorch = {"e": "import", "name": "torch", "version": "2.13.0"}
    error = said(pytorch, {"e": "torch_replay"})
    assert "the script replays CUDA graphs, and no update by an optimizer" in str(error)

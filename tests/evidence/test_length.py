"""How long a training is configured to be, from what its loops and its call say."""

import pytest

from trainperf.evidence.events import Observed
from trainperf.evidence.facts import length
from trainperf.model import Loop, Missing


def around(text="for batch in loader:", turns=None, left=None, each=None, line=7, sometimes=False):
    return {
        "file": "/w/train.py",
        "line": line,
        "function": "main",
        "text": text,
        "turns": turns,
        "left": left,
        "each": each,
        "sometimes": sometimes,
    }


def found(loop, *loops, made=10, trainer=None, apart=()):
    steps = tuple({"e": "step", "p": "real"} for _ in range(made))
    event = {"e": "length", "loops": list(loops), "trainer": trainer}
    cycles = tuple({"e": "cycle", "turns": turns} for turns in apart)
    return length(Observed((), {"kind": "fit"}, (*steps, event, *cycles)), loop)


DATA = Loop("iterator", epoch_steps=40)
EPOCHS = around("for epoch in range(6):", turns=6, line=5)


@pytest.mark.parametrize(
    ("loop", "loops"),
    [
        (DATA, [around(), around("for epoch in forever():")]),
        (Loop("iterator"), [around(), EPOCHS]),
        (Loop("fit", epochs=3), []),
        (Loop("fit", epochs=3, epoch_steps=9), [around("for lr in sweep():")]),
        (Loop("update"), [around("while True:")]),
        (Loop("update"), []),
    ],
)
def test_what_the_source_does_not_tell_is_not_known_and_why(loop, loops):
    told = found(loop, *loops)
    assert isinstance(told, Missing)
    assert told.reason


def test_a_loop_over_data_within_one_of_epochs():
    told = found(DATA, around(), EPOCHS)
    assert (told.steps, told.epochs, told.text) == (240, 6, "6 epochs of 40 steps")
    assert told.where.line == 5


def test_a_counter_of_the_loop_ends_each_epoch_sooner():
    assert found(DATA, around(each=25), EPOCHS).steps == 150


def test_a_counter_that_goes_on_through_the_epochs_ends_the_training():
    told = found(DATA, around(left=90), EPOCHS, made=10)
    assert (told.steps, told.epochs) == (100, 3)
    assert told.text == "100 steps, until its counter ends it"
    assert found(Loop("iterator"), around(left=90), made=10).steps == 100  # of endless data


def test_gradients_that_accumulate_are_one_step():
    loop = Loop("iterator", epoch_steps=10, batches_per_step=4)
    assert found(loop, around(each=20), EPOCHS).steps == 30
    assert found(loop, around(left=80), EPOCHS, made=5).steps == 25


def test_a_loop_that_asks_for_its_batches_counts_its_own_turns():
    assert found(DATA, around("for step in range(500):", turns=500)).steps == 500
    assert found(DATA, around("while True:", left=90), made=10).steps == 100
    accumulates = Loop("iterator", epoch_steps=40, batches_per_step=2)
    inner = around("for micro in range(2):", turns=2)
    assert found(accumulates, inner, around("for step in range(50):", turns=50)).steps == 50


def test_steps_of_a_loop_that_makes_its_batches():
    told = found(Loop("update"), around("for i in range(20):", turns=20), EPOCHS)
    assert (told.steps, told.epochs) == (120, None)


def test_a_counter_that_ends_a_loop_and_the_one_around_it_counts_once():
    inner = around("while not done and len(losses) < 210:", left=180)
    outer = around("while len(losses) < 210:", left=180, line=5)
    assert found(Loop("call"), inner, outer, made=30).steps == 210
    assert found(Loop("call"), inner, outer, EPOCHS, made=30).steps == 6 * 210


def test_fit_says_its_epochs_and_the_loops_around_it_how_often():
    fit = Loop("fit", epochs=3, epoch_steps=10)
    assert found(fit).steps == 30
    told = found(fit, around("for fold in range(4):", turns=4))
    assert (told.steps, told.epochs, told.fits) == (120, 12, 4)
    assert told.text == "4 calls of `fit`, 12 epochs of 10 steps in all"


def test_a_fit_under_a_condition_comes_as_often_as_it_was_seen_to():
    fit = Loop("fit", epochs=1, epoch_steps=1)
    turns = around("for t in range(180):", turns=180, sometimes=True)
    assert found(fit, turns) == Missing("`fit` does not come in each turn of `for t in range(180)`")
    told = found(fit, turns, apart=(4, None, 4))
    assert (told.steps, told.fits) == (45, 45)
    assert told.text == "about 45 calls of `fit`, 45 epochs of 1 step in all"
    assert found(fit, around(turns=180), apart=(1, 1)).text.startswith("180 calls")


@pytest.mark.parametrize(
    ("steps", "epochs", "many"), [(100, None, 100), (None, 3, 120), (100, 3, 100), (500, 3, 120)]
)
def test_a_trainer_ends_at_its_steps_or_its_epochs(steps, epochs, many):
    trainer = {"name": "Trainer", "steps": steps, "epochs": epochs}
    assert found(DATA, trainer=trainer).steps == many

"""Equal trainings pass and other trainings do not, whatever is allowed to differ."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from trainperf.model import Equivalence
from trainperf.trial.parity import (
    Band,
    Losses,
    control,
    judge,
    judge_printed,
    read_losses,
)

EXACT, NUMERICS = Equivalence.EXACT, Equivalence.NUMERICS
QUIET = Band(True, 0.0)


def falling(update: int) -> float:
    """The loss of a training that learns, before noise."""
    return 0.1 + 2.2 * math.exp(-update / 60)


def training(
    seed: int,
    updates: int = 120,
    noise: float = 0.15,
    curve: Callable[[int], float] = falling,
    every: int = 1,
) -> Losses:
    """A training whose batches come in an order of their own: `noise` is relative."""
    draw = random.Random(seed)
    values = {n: curve(n) * (1 + noise * draw.gauss(0, 1)) for n in range(1, updates + 1)}
    return Losses("loss", {n: v for n, v in values.items() if n % every == 0}, "fit")


def changed(losses: Losses, change: Callable[[int, float], float]) -> Losses:
    return Losses(losses.kind, {n: change(n, v) for n, v in losses.values.items()}, losses.source)


def rounding(tenfold: float) -> Callable[[int, float], float]:
    """Rounding noise that grows tenfold in so many updates, as it does in training."""
    draw = random.Random(3)
    return lambda n, v: v * (1 + min(0.5, 1e-7 * 10 ** (n / tenfold)) * draw.gauss(0, 1))


# ---------------------------------------------------------------- must pass


@pytest.mark.parametrize("tenfold", [20, 40, 1000])
@pytest.mark.parametrize("every", [1, 8, 32])
def test_an_exact_fix_passes_with_rounding_as_training_lets_it_grow(
    tenfold: float, every: int
) -> None:
    baseline = training(1, 400, every=every)
    parity = judge(EXACT, baseline, changed(baseline, rounding(tenfold)), QUIET)
    assert parity.ok, parity.text
    assert "rounding" in parity.text


@pytest.mark.parametrize("updates", [12, 48, 120, 1000])
@pytest.mark.parametrize("noise", [0.02, 0.15, 0.5])
def test_another_order_of_samples_passes_as_numerics(updates: int, noise: float) -> None:
    failed = [
        parity.text
        for seed in range(40)
        for parity in [
            judge(
                NUMERICS, training(seed, updates, noise), training(99 + seed, updates, noise), QUIET
            )
        ]
        if not parity.ok
    ]
    assert len(failed) <= 1, failed


def test_an_order_that_learns_somewhat_slower_passes_as_numerics() -> None:
    slower = training(7, 240, curve=lambda n: falling(int(n / 1.6)))
    parity = judge(NUMERICS, training(1, 240), slower, QUIET)
    assert parity.ok
    assert parity.text.endswith("(240 compared), as another order of samples may give")


def test_running_means_are_taken_apart_before_orders_are_compared() -> None:
    def means(losses: Losses) -> Losses:
        values, total = {}, 0.0
        for n, value in losses.values.items():
            total += value
            values[n] = total / n
        return Losses("loss", values, "fit", {n: n for n in values})

    for seed in range(40):
        one, other = training(seed, 48), training(99 + seed, 48)
        assert judge(NUMERICS, means(one), means(other), QUIET).ok
    frozen = means(training(3, 240, curve=lambda n: falling(0)))
    assert judge(NUMERICS, means(training(1, 240)), frozen, QUIET).ok is False


# ------------------------------------------------------------ must not pass


@pytest.mark.parametrize("every", [1, 8])
def test_an_exact_fix_that_changes_the_order_of_samples_is_found(every: int) -> None:
    parity = judge(EXACT, training(1, every=every), training(2, every=every), QUIET)
    assert parity.ok is False
    assert parity.text.startswith(f"losses part at step {every}: ")


def test_samples_that_are_random_once_only_are_found_in_the_second_epoch() -> None:
    """As when augmented samples are cached: equal first, then apart at one blow."""
    baseline, other = training(1, 300), training(2, 300)
    candidate = Losses(
        "loss", {n: v if n <= 200 else other.values[n] for n, v in baseline.values.items()}, "fit"
    )
    parity = judge(EXACT, baseline, candidate, QUIET)
    assert parity.ok is False
    assert parity.text.startswith("losses part at step 201: ")


@pytest.mark.parametrize("updates", [120, 400])
def test_a_training_that_does_not_learn_fails_as_numerics(updates: int) -> None:
    for seed in range(40):
        frozen = training(99 + seed, updates, curve=lambda n: falling(0))
        parity = judge(NUMERICS, training(seed, updates), frozen, QUIET)
        assert parity.ok is False, parity.text
        assert parity.text.startswith("mean losses differ by ")


def test_a_training_that_diverges_is_not_excused_by_its_own_noise() -> None:
    wild = training(5, 120, noise=2.0, curve=lambda n: 0.1 * n)
    assert judge(NUMERICS, training(1), wild, QUIET).ok is False


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("equivalence", [EXACT, NUMERICS, Equivalence.ENVIRONMENT])
def test_a_loss_that_is_no_number_any_more_fails(value: float, equivalence: Equivalence) -> None:
    baseline = training(1, 20, noise=0.0)
    parity = judge(
        equivalence, baseline, Losses("loss", {**baseline.values, 7: value}, "fit"), QUIET
    )
    assert parity.ok is False
    assert parity.text == f"losses part at step 7: {baseline.values[7]:.4g} against {value}"


# ---------------------------------------------------------- the script itself


def test_a_script_that_does_not_repeat_itself_is_judged_by_its_own_band() -> None:
    band = control(training(1), training(2))
    assert band.reproducible is False
    parity = judge(EXACT, training(1), training(3), band)
    assert parity.ok
    assert parity.text.endswith(f"; the script differs from itself by {100 * band.relative:.0f} %")
    frozen = training(4, curve=lambda n: falling(0) * 2)
    assert judge(EXACT, training(1), frozen, band).ok is False


# ------------------------------------------------------------ cannot be judged


def test_what_changes_the_experiment_must_still_train_with_numbers() -> None:
    one = training(1)
    last = max(one.values)
    broken = changed(one, lambda n, v: math.nan if n == last else v)
    parity = judge(Equivalence.SEMANTICS, one, broken, QUIET)
    assert parity.ok is False
    assert f"at step {last}: " in parity.text
    assert judge(Equivalence.SEMANTICS, broken, broken, QUIET).ok is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (None, None),
        (training(1), None),
        (training(1, 10), Losses("loss", {99: 1.0})),
        (training(1), Losses("weights", {1: 1.0})),
    ],
)
def test_without_a_common_update_there_is_no_verdict(
    one: Losses | None, other: Losses | None
) -> None:
    parity = judge(EXACT, one, other, QUIET)
    assert (parity.ok, parity.text) == (None, "no loss could be seen")


def test_few_losses_of_another_order_are_no_verdict() -> None:
    parity = judge(NUMERICS, training(1, 4), training(2, 4), QUIET)
    assert parity.ok is None
    assert parity.text.startswith("4 losses are too few")


def test_losses_seen_in_different_places_reject_nothing() -> None:
    tape = Losses("loss", {n: 1.0 / n for n in range(1, 50)}, "tape", weights={1: 30.0, 2: 30.1})
    output = Losses("loss", {n: 0.5 + n / 100 for n in range(1, 50)}, "output")
    assert judge(NUMERICS, tape, output, QUIET).ok is None
    with_weights = Losses("loss", output.values, "output", weights={1: 30.0, 2: 30.1})
    parity = judge(EXACT, tape, with_weights, QUIET)
    assert (parity.ok, parity.text) == (True, "2 sums of weights equal to rounding")
    other = Losses("loss", output.values, "output", weights={1: 30.0, 2: 30.2})
    assert "part at step 2: " in judge(EXACT, tape, other, QUIET).text


# -------------------------------------------------------------------- reading


def test_events_are_read_by_kind() -> None:
    events = [
        {"e": "step"},
        {"e": "losses", "kind": "loss", "of": "fit", "u": [1, 2], "v": [0.5, "nan"], "k": [1, 2]},
        {"e": "losses", "kind": "weights", "of": "fit", "u": [2], "v": [9.0], "k": [0]},
        {"e": "losses", "kind": "loss", "of": "fit", "u": [3], "v": [0.25], "k": [3]},
    ]
    losses = read_losses(events)
    assert losses is not None
    assert losses.kind == "loss"
    assert losses.source == "fit"
    assert losses.values[3] == 0.25
    assert math.isnan(losses.values[2])
    assert losses.means == {1: 1, 2: 2, 3: 3}
    assert losses.weights == {2: 9.0}
    assert read_losses(events[:1]) is None
    assert read_losses(events[2:3]) == Losses("weights", {2: 9.0})


# ---------------------------------------------------------------- what plain runs print

KERAS = "Epoch 1/2\n5/5 - loss: 2.1000\nEpoch 2/2\n5/5 - accuracy: 0.5 - loss: {} - val_loss: 0.9\n"


@pytest.mark.parametrize(
    ("itself", "changed", "ok", "says"),
    [
        ("1.0823", "1.0823", True, "the last loss and val_loss that it prints is the same"),
        ("1.0823", "1.1000", True, "within 1.6 %"),
        ("1.0823", "1.1500", None, "the last loss printed is 1.15, not 1.0823"),  # other rounding
        ("1.0823", "1.5000", False, "the last loss printed is 1.5, not 1.0823"),
        ("1.0823", "nan", False, "the last loss printed is nan"),
        ("1.2000", "1.5000", None, "its runs as it is end with another loss: 1.0823 and 1.2"),
    ],
)
def test_plain_runs_are_judged_by_the_last_losses_that_they_print(itself, changed, ok, says):
    with_it = KERAS.format(changed)
    parity = judge_printed((KERAS.format("1.0823"), KERAS.format(itself)), (with_it, with_it))
    assert (parity.ok, says in parity.text) == (ok, True), parity.text


@pytest.mark.parametrize(
    ("text", "other", "ok"),
    [
        ("{'train_loss': 0.52, 'epoch': 3}", "{'train_loss': 0.90, 'epoch': 3}", False),
        ("Loss/train=tensor(3.5e-05)", "Loss/train=tensor(3.5e-05)", True),
        ("loss 0.01", "loss 0.02", True),  # as it is rounded
        ("loss nan", "loss nan", True),
        ("loss at step 100", "loss at step 200", None),
        ("train_seconds=10.30", "train_seconds=0.84", None),
    ],
)
def test_a_loss_is_known_by_its_name(text, other, ok):
    assert judge_printed((text, text), (other, other)).ok is ok

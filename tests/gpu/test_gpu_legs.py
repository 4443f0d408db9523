"""Legs on a card that is partly full, and one that is paused for long."""

from __future__ import annotations

import time

import pytest
from gpu_kit import Place, case, most_memory, on_both, read_losses_of

from kit.legs import warm_up
from trainperf.run.stopping import LEG, Guard
from trainperf.trial.legs.leg import Leg as RunningLeg

PAUSE_S = 30.0


FULL = [
    case(60, 0.20, (3, 4), 60, name="20%"),
    case(60, 0.40, (2,), 60, name="40%"),
    case(80, 0.60, (1,), 80, name="60%"),
]
"""Shares of the card, how many legs at once hold it, and budgets: legs warm up in turn."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("place", "share", "legs", "budget_s"), FULL, indirect=["place"])
def test_as_many_legs_as_the_card_holds(
    place: Place, share: float, legs: tuple[int, ...], budget_s: int
) -> None:
    place.probe_little()
    with most_memory() as most:
        report = place.diagnosed(
            "memory.py", "--share", f"{share}",
            options=("--budget", f"{budget_s}s", "--only", "torch_workers"),
        )  # fmt: skip
    import torch

    total = torch.cuda.get_device_properties(0).total_memory
    alone = report["trying"]["mode"] == "one after another"
    assert alone == (legs == (1,)), report["trying"]
    at_once = most[0] / total / share
    assert int(at_once + 0.1) in legs, f"legs for {at_once:.1f} × {share} of the card at once"
    blamed = [one for one in report["trials"] if "memory" in one["reason"]]
    assert not blamed, blamed


@pytest.mark.timeout(200)
@on_both(seconds=45)
def test_a_leg_paused_for_long_trains_as_one_that_was_not(place: Place) -> None:
    run = place.leg("hidden.py", "--item", "0", "--step", "0.02")
    names = ("paused", "unpaused")
    legs = [RunningLeg(n, run, place.folder / f"{LEG}{n}") for n in names]
    with Guard() as guard:
        try:
            warm_up(legs, guard)
            for leg in legs:
                assert leg.alive, leg.failure
                assert leg._idle, "it did not wait for its turn on the device"
                leg.run_slice(10, 2, 30.0, lambda: False)
            for _ in range(3):
                legs[1].run_slice(10, 2, 30.0, lambda: False)
            time.sleep(3.0 if place.emulated else PAUSE_S)
            for _ in range(3):
                legs[0].run_slice(10, 2, 30.0, lambda: False)
        finally:
            for leg in legs:
                leg.end()
    paused, unpaused = (read_losses_of(leg) for leg in legs)
    both = sorted(paused.keys() & unpaused.keys())
    assert len(both) >= 10, (len(paused), len(unpaused))
    assert [paused[n] for n in both] == pytest.approx([unpaused[n] for n in both], rel=1e-5)

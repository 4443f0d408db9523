"""Captured graphs, updates within backward and checkpointing: seen or named, and left intact."""

from __future__ import annotations

import sys

import pytest
from gpu_kit import PLAIN_S, Place, case

BUDGETS = {
    "reduce-overhead": 45,  # it compiles
    "callables": 25,
    "whole": 25,
    "in-backward": 25,
    "checkpointing": 25,
}
KINDS = [case(PLAIN_S + 2 + many, kind, many, name=kind) for kind, many in BUDGETS.items()]
"""Ways to step, and what their diagnoses may take."""


def losses(place: Place) -> dict[int, float]:
    """The loss of the latest run after so many steps."""
    lines = [line.split() for line in place.losses.read_text().splitlines()]
    place.losses.unlink()
    return {int(count): float(loss) for count, loss in lines}


@pytest.mark.timeout(200)
@pytest.mark.parametrize(("place", "kind", "budget_s"), KINDS, indirect=["place"])
def test_a_step_is_seen_or_named_and_stays_what_it_was(
    place: Place, kind: str, budget_s: int
) -> None:
    words = ("graphs.py", "--kind", kind)
    report = place.diagnosed(*words, options=("--budget", f"{budget_s}s", "--no-trials"))
    assert report["ending"] in ("measured", "finished"), report["output_tail"]
    observed = losses(place)
    assert observed, "the script made fewer than 64 steps in the diagnosis"
    last = max(observed)
    place.run(sys.executable, *words, "--until", str(last))
    place.row(f"the loss after {last} steps", losses(place)[last], observed[last], 0.003)
    if "seconds" in report["evidence"]["times"]["real"]:
        return  # seen
    said = " ".join([report["verdict"]["text"], *report["notes"]])
    said += " ".join(f"{one['what']} {one['reason']}" for one in report["not_measured"])
    assert "graph" in said or "backward" in said, said

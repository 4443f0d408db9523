"""Captured graphs, updates within backward and checkpointing: seen or named, and left intact."""

from __future__ import annotations

import pytest
from gpu_kit import Place, on_gpu

KINDS = {
    "reduce-overhead": "45s",  # it compiles
    "callables": "10s",
    "whole": "10s",
    "in-backward": "10s",
    "checkpointing": "10s",
}
"""Ways to step, and what their diagnoses may take."""


@pytest.mark.timeout(200)
@pytest.mark.parametrize("kind", KINDS)
@on_gpu(seconds=10)
def test_a_step_is_seen_or_named_and_stays_what_it_was(place: Place, kind: str) -> None:
    words = ("graphs.py", "--kind", kind)
    report = place.diagnosed(*words, options=("--budget", KINDS[kind], "--no-trials"))
    assert report["ending"] in ("measured", "finished"), report["output_tail"]
    if report["times"]["real_s"] is not None:
        return  # seen; that its losses go down, the script itself looks at
    said = " ".join([report["verdict"]["text"], *report["notes"]])
    said += " ".join(f"{one['what']} {one['reason']}" for one in report["not_measured"])
    assert "graph" in said or "backward" in said, said

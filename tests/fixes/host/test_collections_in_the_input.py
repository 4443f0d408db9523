"""Collections that hold up the making of batches are priced as part of the input."""

from __future__ import annotations

from fixes.case_text import evidence_of
from trainperf.fixes import by_id
from trainperf.fixes.findings import shown_findings


def test_collections_of_a_loop_that_waits_for_its_input_are_of_the_input() -> None:
    evidence = evidence_of("torch_slow_transform")
    taken = evidence.times.real / 4
    evidence = evidence_of(
        "torch_slow_transform",
        {"collections": {"seconds": taken, "full": 1.0}},
    )
    assert evidence.input_bound

    [finding] = shown_findings(evidence, among=[by_id()["garbage_collection"]])

    assert finding.category == "input"
    assert finding.bound is not None
    assert 1.3 < finding.bound < 1.34
    assert finding.advice.endswith("leave that out.")

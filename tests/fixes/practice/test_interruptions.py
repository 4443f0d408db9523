"""What saving takes is all that writing beside the training can save."""

from __future__ import annotations

from fixes.case_text import evidence_of
from trainperf.fixes import by_id
from trainperf.fixes.cause import Saving


def test_an_evaluation_is_not_saved_with_the_checkpoint() -> None:
    spent = [
        {"what": "evaluation", "seconds": 5.0, "share": 0.5},
        {"what": "saving", "seconds": 1.0, "share": 0.1, "where": "a.py:7"},
    ]
    turn = {"turn": "evaluation", "seconds": 10.0, "steps": 500, "training_s": 4.0, "spent": spent}

    cause = by_id()["torch_save_beside"].look(evidence_of("saving_often", {"outside": turn}))

    assert cause is not None
    assert isinstance(cause.saves, Saving)
    assert cause.saves.ratio == 10 / 9
    assert "take 1.00 s in every 500 steps" in cause.text

from fixes.case_text import evidence_of
from trainperf.fixes.common.words import at, worth
from trainperf.model import Site


def test_a_place_is_said_without_its_folders() -> None:
    assert at(Site("/home/me/train.py", 14)) == "train.py:14"
    assert at(None) == ""


def test_a_bound_within_noise_is_not_worth_saying() -> None:
    quiet = evidence_of("healthy | times.real = 0.1; times.resident = 0.098")  # ± 2 %

    assert not worth(quiet, 1.05)
    assert worth(quiet, 1.06)

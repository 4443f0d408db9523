import pytest

from trainperf.fixes.common.cases import evidence
from trainperf.fixes.common.words import at, ms, percent, times, worth
from trainperf.model import Site


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0612, "61.2 ms"),
        (1.4, "1.40 s"),
        (85e-6, "85 µs"),
        (0.2504, "250 ms"),
        (0.99994, "1.00 s"),
        (0.09996, "100 ms"),
        (0.0009999, "1.0 ms"),
        (300.0, "300 s"),
        (0.0, "0 µs"),
    ],
)
def test_a_time_is_said_with_three_figures_at_most(seconds: float, said: str) -> None:
    assert ms(seconds) == said


def test_a_share_that_rounds_to_nothing_is_not_called_nothing() -> None:
    assert percent(0.002) == "<1 %"
    assert percent(0.0) == "0 %"
    assert percent(0.694) == "69 %"


def test_a_place_is_said_without_its_folders() -> None:
    assert at(Site("/home/me/train.py", 14)) == "train.py:14"
    assert at(None) == ""


@pytest.mark.parametrize(
    ("ratio", "said"), [(3.21, "3.2×"), (1.054, "1.05×"), (1.96, "2.0×"), (14.6, "15×")]
)
def test_a_ratio_is_said_as_finely_as_it_matters(ratio: float, said: str) -> None:
    assert times(ratio) == said


def test_a_bound_within_noise_is_not_worth_saying() -> None:
    quiet = evidence()  # ± 2 %, so the line is at 5 %

    assert not worth(quiet, 1.05)
    assert worth(quiet, 1.06)

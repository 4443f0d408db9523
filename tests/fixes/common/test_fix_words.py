from fixes.case_text import evidence_of
from trainperf.fixes.common.pipeline import takes
from trainperf.fixes.common.words import at, worth
from trainperf.model import Site


def test_a_place_is_said_without_its_folders() -> None:
    assert at(Site("/home/me/train.py", 14)) == "train.py:14"
    assert at(None) == ""


def test_a_bound_within_noise_is_not_worth_saying() -> None:
    quiet = evidence_of("healthy | times.real = 0.1; times.resident = 0.098")  # ± 2 %

    assert not worth(quiet, 1.05)
    assert worth(quiet, 1.06)


def test_of_several_stages_the_first_is_not_said_to_take_what_all_take() -> None:
    two = evidence_of('slow_images | stages[batch].op = "map"; stages[2].seconds_per_step = 0.01')
    maps = [stage for stage in two.stages if stage.op == "map"]
    assert takes(two, maps[:1]).startswith(": 30.1 ms of the ")
    assert takes(two, maps).startswith(": 30.1 ms of the ")
    assert takes(two, maps).endswith(", 40.1 ms with others like it")

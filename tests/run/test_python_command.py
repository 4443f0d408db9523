import pytest

from trainperf.run.launchers import Program, program


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("python train.py --lr 1", Program("script", "train.py", 2)),
        ("python -u -X dev -W ignore train.py -m x", Program("script", "train.py", 7)),
        ("python -m pkg.train --lr 1", Program("module", "pkg.train", 3)),
        ("python -um pkg.train --lr 1", Program("module", "pkg.train", 3)),
        ("python -mpkg.train --lr 1", Program("module", "pkg.train", 2)),
        ("python -Wc train.py", Program("script", "train.py", 3)),
        ("python -c pass x", Program("code", "pass", 3)),
        ("python -", None),
        ("python -u", None),
        ("python", None),
        ("python -m", None),
    ],
)
def test_the_program_is_told_from_the_options_of_the_interpreter(words, found):
    assert program(words.split()) == found

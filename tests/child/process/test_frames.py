"""Where a call stands: these tests make files of the user's and run them."""

import importlib.util
import textwrap
from pathlib import Path

import pytest

from trainperf.child.process import frames


@pytest.fixture
def module(tmp_path):
    def load(source, name="users_own"):
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        made = importlib.util.module_from_spec(spec)
        made.frames = frames
        spec.loader.exec_module(made)
        return made

    return load


def cut(module, site):
    """The text between the columns and lines of a site."""
    lines = Path(module.__file__).read_text(encoding="utf-8").splitlines()
    picked = lines[site["line"] - 1 : site["end_line"]]
    picked[-1] = picked[-1][: site["end_col"]]
    picked[0] = picked[0][site["col"] :]
    return "\n".join(picked)


def test_a_site_is_the_whole_call_expression(module):
    made = module("def f():\n    return [0, frames.here(None), 1]\n")
    site = made.f()[1]
    assert cut(made, site) == "frames.here(None)"
    assert (site["line"], site["function"], site["file"]) == (2, "f", made.__file__)


def test_a_site_of_several_lines_has_its_first_and_last(module):
    made = module(
        """
        def f():
            return frames.here(
                skip_self=None,
            )
        """
    )
    site = made.f()
    assert (site["line"], site["end_line"]) == (3, 5)
    assert cut(made, site) == "frames.here(\n        skip_self=None,\n    )"


def test_columns_count_characters_where_the_line_is_not_ascii(module):
    made = module("def f():\n    é = 'größe ☃'; x = frames.here(); return x\n")
    assert cut(made, made.f()) == "frames.here()"


def test_a_method_chain_is_cut_at_its_own_call(module):
    made = module(
        """
        class Chain:
            def first(self):
                return self
            def then(self):
                return frames.site(sys._getframe(1))
        import sys
        def f():
            return (
                Chain()
                .first()
                .then()
            )
        """
    )
    site = made.f()
    assert cut(made, site).endswith("then()")
    assert site["end_line"] == 12


def test_library_files_are_not_the_users():
    import json

    assert not frames.is_users(json.__file__)
    assert not frames.is_users(pytest.__file__)
    assert not frames.is_users("<string>")
    assert not frames.is_users("")
    assert not frames.is_users("/home/me/env/lib/python3.12/site-packages/x/y.py")
    assert not frames.is_users("/tmp/__autograph_generated_file1a2b.py")
    assert not frames.is_users(frames.__file__)
    assert frames.is_users("/home/me/train.py")


def test_frames_of_an_objects_own_constructor_are_passed_over(module):
    made = module(
        """
        class Base:
            def __init__(self):
                self.site = frames.here(skip_self=self)
        class Own(Base):
            def __init__(self):
                super().__init__()
        def build():
            return Own()
        """
    )
    assert made.build().site["function"] == "build"


LOOP = """
def train(epochs, start=0, data=3):
    answers = []
    for epoch in {iter}:
        for batch in range(data):
            if batch == data - 1:
                answers.append(frames.another_turn())
    return answers
"""


@pytest.mark.parametrize(
    ("iterable", "answers"),
    [
        ("range(epochs)", [True, True, False]),
        ("range(start, epochs)", [True, True, False]),
        ("range(1, epochs + 1)", [True, True, False]),
        ("range(0, 6, 2)", [True, True, False]),
        ("range(epochs - 1, -1, -1)", [True, True, False]),
        ("tqdm(range(epochs), desc='x')", [True, True, False]),
        ("bar.tqdm(range(epochs))", [True, True, False]),
        ("reversed(range(epochs))", [False] * 3),
        ("sorted(range(epochs), reverse=True)", [False] * 3),
        ("list(range(epochs))", [False] * 3),
        ("iter(range(epochs))", [False] * 3),
        ("[0, 1, 2]", [False] * 3),
        ("range(int(epochs))", [False] * 3),
    ],
)
def test_another_turn_is_only_sure_where_the_end_can_be_worked_out(module, iterable, answers):
    made = module(
        "class bar:\n    tqdm = staticmethod(lambda x, **k: x)\ntqdm = bar.tqdm\n"
        + LOOP.format(iter=iterable)
    )
    expected = answers
    if iterable.startswith("range(epochs - 1"):  # `-1` is no plain literal: not sure
        expected = [False] * 3
    assert made.train(3) == expected


def test_a_loop_around_the_function_counts_as_well(module):
    made = module(
        """
        def epoch_of_training():
            for batch in [1]:
                return frames.another_turn()
        def main(epochs):
            answers = []
            for epoch in range(epochs):
                answers.append(epoch_of_training())
            return answers
        """
    )
    assert made.main(2) == [True, False]


def test_without_a_loop_around_there_is_no_other_turn(module):
    made = module(
        """
        def train():
            for batch in [1, 2]:
                answer = frames.another_turn()
            return answer
        """
    )
    assert made.train() is False


def test_an_outer_while_loop_is_never_sure(module):
    made = module(
        """
        def train():
            while True:
                for batch in [1]:
                    return frames.another_turn()
        """
    )
    assert made.train() is False


def test_a_loop_around_a_call_is_found_with_or_without_the_trainings_own(module):
    made = module(
        """
        def fit():
            return frames.loop_around(own=False)
        def main(data):
            for epoch in range(2):
                return fit()
        def other(data):
            for epoch in data:
                return fit()
        """
    )
    where, sure = made.main([1])
    assert (where["function"], where["line"], sure) == ("main", 5, True)
    where, sure = made.other([1])
    assert (where["line"], sure) == (8, False)
    assert made.fit() == (None, False)


def test_how_often_a_line_is_reached_is_read_off_the_source(module):
    made = module(
        """
        def validate():
            return frames.every()
        def train(interval, turn=0):
            if turn % interval == 0 and turn >= 0:
                return validate()
        def other(interval, turn=0):
            if turn % interval() == 0:
                return validate()
        """
    )
    assert made.train(250) == 250
    assert made.other(lambda: 5) is None, "it would have to be called"
    assert made.validate() is None

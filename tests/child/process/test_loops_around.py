"""The loops around a line: these tests make files of the user's and run them."""

import textwrap

import pytest

LOOP = """
def train(epochs, start=0, data=3):
    answers = []
    for epoch in {iter}:
        for batch in range(data):
            if batch == data - 1:
                answers.append(turns.loop_around()[1])
    return answers
"""


@pytest.mark.parametrize(
    ("iterable", "answers"),
    [
        ("range(epochs)", [True, True, False]),
        ("range(1, epochs + 1)", [True, True, False]),
        ("range(epochs - 1, -1, -1)", [True, True, False]),
        ("tqdm(range(epochs), desc='x')", [True, True, False]),
        ("bar.tqdm(range(epochs))", [True, True, False]),
        ("reversed(range(epochs))", [False] * 3),
        ("[0, 1, 2]", [False] * 3),
        ("range(int(epochs))", [True, True, False]),
        ("range(len([0] * epochs))", [False] * 3),
    ],
)
def test_another_turn_is_only_sure_where_the_end_can_be_worked_out(module, iterable, answers):
    made = module(
        "class bar:\n    tqdm = staticmethod(lambda x, **k: x)\ntqdm = bar.tqdm\n"
        + LOOP.format(iter=iterable)
    )
    assert made.train(3) == answers


def test_a_property_that_raises_leaves_it_open_and_harms_nobody(module):
    made = module(
        """
        class Configuration:
            @property
            def epochs(self):
                if answers:
                    raise RuntimeError("not configured")
                return 3
        answers = []
        def main(configuration):
            for epoch in range(configuration.epochs):
                for batch in [1]:
                    answers.append(turns.loop_around()[1])
                    answers.append(turns.around()[1]["turns"])
        """
    )
    made.main(made.Configuration())
    assert made.answers[:2] == [True, None]
    assert made.answers[2:] == [False, None] * 2


def test_how_often_a_line_is_reached_is_read_off_the_source(module):
    made = module(
        """
        def validate():
            return turns.every()
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


def described(found):
    """The numbers of each loop: turns, left, each."""
    return [(one["turns"], one["left"], one["each"]) for one in found]


@pytest.mark.parametrize(
    ("header", "turns_of_it"),
    [
        ("for epoch in range(epochs):", 4),
        ("for epoch in tqdm(range(epochs), desc='epochs'):", 4),
        ("for epoch in trange(2 * epochs):", 8),
        ("for epoch, rate in enumerate(rates):", 3),
        ("for rate in [0.1, 0.01]:", 2),
        ("for start in range(0, len(rates) * 10, 4):", 8),
        ("for n, start in enumerate(range(0, table.size(0) - 1, 35)):", 3),
        ("for epoch in range(config['epochs']):", 5),
        ("for epoch in range(epochs()):", None),
        ("for epoch in data:", None),
    ],
)
def test_the_turns_of_a_loop_are_read_off_its_header(module, header, turns_of_it):
    made = module(
        f"""
        class Data:
            def __iter__(self):
                return iter([0])
            def __len__(self):
                raise RuntimeError("this runs code of the script's")
        def tqdm(values, **more):
            return values
        trange, data = range, Data()
        class Table:
            shape = (100, 20)
            def size(self, dimension):
                return self.shape[dimension]
        table = Table()
        def train(epochs, rates=(1, 2, 3), config={{"epochs": 5}}):
            {header}
                return turns.around()
        """
    )
    if header.endswith("epochs()):"):
        assert described(made.train(lambda: 4)) == [(None, None, None)]
    else:
        assert described(made.train(4)) == [(turns_of_it, None, None)]


@pytest.mark.parametrize(
    ("body", "left", "each"),
    [
        ("if step >= most:\n    break", 90, None),
        ("if most and step >= most:\n    break", 90, None),
        ("if i >= most:\n    break", None, 100),
        ("if step == 0 and loss:\n    break", None, None),
        ("if loss > most:\n    break", None, None),
        ("if step >= most:\n    print(step)", None, None),
        ("if step >= other():\n    break", None, None),
    ],
)
def test_a_counter_that_leaves_the_loop_is_followed_to_its_limit(module, body, left, each):
    indented = textwrap.indent(body, " " * 8)
    source = f"""
def train(loader, most, seen, loss=0.5, other=int):
    step = 10
    for i, batch in enumerate(loader):
        seen.append(turns.around())
{indented}
        step += 1
"""
    seen = []
    module(source).train([1], 100, seen)
    assert described(seen[0]) == [(1, left, each)]


@pytest.mark.parametrize(
    ("head", "left"),
    [
        ("for at in range(6):", [5, 4, 3, 2, 1, 0]),
        ("for at in tqdm(range(2, 12, 4)):", [2, 1, 0]),
        ("for at, one in enumerate([7, 8, 9]):", [2, 1, 0]),
        ("for one in 'abc':", [None, None, None]),
        ("while len(found) < 3:", [3, 2, 1]),
        ("while len(other) < 3:", [None, None, None]),
        ("for epoch in range(2):\n        for at in range(3):", [5, 4, 3, 2, 1, 0]),
        ("for epoch in 'ab':\n        for at in range(2):", [None] * 4),
    ],
)
def test_how_often_a_line_is_reached_again_before_its_loops_end(module, head, left):
    indent = "    " * (1 + head.count("\n") + 1)
    made = module(
        "class Other:\n    def __len__(self):\n        self.n = getattr(self, 'n', -1) + 1\n"
        "        return self.n\n"
        "tqdm = lambda turns: turns\n"
        f"def main():\n    found, other = [], Other()\n    {head}\n"
        f"{indent}found.append(turns.left())\n"
        "    return found\n"
    )
    assert made.main() == left

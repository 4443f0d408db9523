"""The line in which something grows."""

import pytest

from trainperf.child.timing.soak.held import Scope
from trainperf.child.timing.soak.lines import grown_at

SOURCE = """\
losses = [1]
losses.append(0)


class Data:
    def __init__(self):
        self.cache = {}

    def get(self, i):
        self.cache[i] = "ü", load(i)


class Other:
    def get(self, i):
        self.cache.append(i)


def main():
    for x in data:
        if x:
            losses.append(x)
        total += x
        seen = np.append(seen, x)
        print(losses)
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(SOURCE, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("name", "where", "line", "function"),
    [
        ("losses", {}, 2, "<module>"),
        ("losses", {"first": 18, "last": 25}, 21, "main"),
        ("self.cache", {"cls": "Data"}, 10, "get"),
        ("self.cache", {"cls": "Other"}, 15, "get"),
        ("total", {"first": 18, "last": 25}, 22, "main"),
        ("seen", {"first": 18, "last": 25}, 23, "main"),
    ],
)
def test_what_adds_to_a_name_is_found_in_its_scope(path, name, where, line, function):
    found = grown_at(name, Scope(path, **where))
    assert (found["line"], found["function"]) == (line, function)


@pytest.mark.parametrize("name", ["data", "x", "self.cache"])
def test_where_nothing_is_added_there_is_no_line(path, name):
    assert grown_at(name, Scope(path, first=18, last=25)) is None


def test_columns_count_characters(path):
    found = grown_at("losses", Scope(path, first=18, last=25))
    assert SOURCE.splitlines()[20][found["col"] : found["end_col"]] == "losses.append(x)"


def test_a_file_that_cannot_be_parsed_has_no_line(tmp_path):
    (tmp_path / "train.py").write_text("def (")
    assert grown_at("x", Scope(str(tmp_path / "train.py"))) is None

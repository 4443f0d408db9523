"""Notebooks as the text of a script, and back to the last byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trainperf.recording.cells import cell_and_line, in_reason, in_traceback, short_spot
from trainperf.source.notebooks.notebook import NotANotebook, Notebook

IMAGE = {"data": {"image/png": "iVBORw0KGgo=", "text/plain": ["1e-05"]}, "n": 1e-05}


def notebook(*sources: str, **how: Any) -> bytes:
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "source": ["# Größe\n", "x = ("]}]
    for source in sources:
        lines = source.splitlines(keepends=True)
        cells.append({"cell_type": "code", "outputs": [IMAGE], "source": lines, "metadata": {}})
    whole = {"cells": cells, "metadata": {}, "nbformat": 4}
    return (json.dumps(whole, **(how or {"indent": 1, "ensure_ascii": False})) + "\n").encode()


def lines(text: str) -> dict[tuple[int, int], str]:
    """The lines of a notebook's text that hold anything, by cell and line."""
    numbered = enumerate(text.split("\n"), start=1)
    return {cell_and_line(n): line for n, line in numbered if line and cell_and_line(n)[1]}


def test_a_line_says_its_cell_and_blank_cells_are_not_counted() -> None:
    text = Notebook(notebook("import torch\n\nx = 1", "  \n", "y = 2")).text
    assert lines(text) == {(1, 1): "import torch", (1, 3): "x = 1", (2, 1): "y = 2"}
    assert short_spot("/x/a.ipynb", 2001) == "cell 2, line 1"
    assert short_spot("/x/a.py", 2001) == "a.py:2001"
    assert short_spot("/x/a.ipynb", 1) == "a.ipynb"


def test_places_in_what_python_and_edits_say_become_cells() -> None:
    said = '  File "/x/a.ipynb", line 3007, in f\n  File "/y/torch.py", line 3007, in g'
    assert in_traceback(said) == (
        '  File "/x/a.ipynb", cell 3, line 7, in f\n  File "/y/torch.py", line 3007, in g'
    )
    assert (
        in_reason("x/a.ipynb:3007 holds line 4012")
        == "x/a.ipynb, cell 3, line 7 holds cell 4, line 12"
    )


@pytest.mark.parametrize(
    ("source", "runs", "left_out"),
    [
        ("%matplotlib inline\nx = 1", "# %matplotlib inline\nx = 1", ()),
        ("%load_ext trainperf", "# %load_ext trainperf", ()),
        (
            "!pip install a \\\n  it's",
            "# !pip install a \\\n#   it's",
            ("!pip install a \\",),
        ),
        ("%pip install a", "# %pip install a", ("%pip install a",)),
        ("if x:\n    !ls", "if x:\n    pass  # !ls", ("!ls",)),
        ("files = !ls", "files = []  # files = !ls", ("files = !ls",)),
        ("a.b?\n??a", "# a.b?\n# ??a", ()),
        ("%time fit(x)", "fit(x)  # %time", ()),
        ("%%time\nfit(x)", "#%%time\nfit(x)", ()),
        ("\n%%capture out\nfit(x)", "\n#%%capture out\nfit(x)", ()),
        ("%%trainperf --budget 1min\nf()", "#%%trainperf --budget 1min\nf()", ()),
        ("%%bash\nls (", "# %%bash\n# ls (", ("%%bash",)),
        ("%env A=b c", "__import__(\"os\").environ['A'] = 'b c'  # %env A=b c", ()),
        ("%cd data", "__import__(\"os\").chdir('data')  # %cd data", ()),
        ("x = (7\n  % 3)", "x = (7\n  % 3)", ()),
        ("!ls\ns = '''\n!ls\n% s\n'''", "# !ls\ns = '''\n!ls\n% s\n'''", ("!ls",)),
        ("from __future__ import division", "# from __future__ import division", ()),
        ("x = (", "x = (", ()),
        ("pip install a", "# pip install a", ("pip install a",)),
        ("ls = 1\nls\nls [0]", "ls = 1\nls\nls [0]", ()),
        ("  if x:\n    f()\n\n  !ls", "if x:\n  f()\n\n# !ls", ("!ls",)),
    ],
)
def test_commands_to_ipython_run_as_python_or_are_left_out(
    source: str, runs: str, left_out: tuple[str, ...]
) -> None:
    (cell,) = Notebook(notebook(source)).cells
    assert (cell.code, cell.left_out) == (runs, left_out)


LAYOUTS: list[dict[str, Any]] = [
    {"indent": 1, "ensure_ascii": False},
    {"indent": 1},
    {"indent": 2},
    {"separators": (",", ":")},
]


@pytest.mark.parametrize("how", LAYOUTS)
def test_all_but_the_lines_that_are_edited_stays_to_the_last_byte(how: dict[str, Any]) -> None:
    before = ("%matplotlib inline\nx = 'ü'", "%time fit(x)\n!ls", "fit(1)\n\n")
    after = ("%matplotlib inline\nimport os\nx = 'ü'", "%time fit(x, n=2)\n!ls", "fit(1)\n\n")
    data = notebook(*before, **how)
    text = Notebook(data).text
    assert Notebook(data).with_text(text) == data
    edited = text.replace("x = 'ü'", "import os\nx = 'ü'").replace("fit(x)", "fit(x, n=2)")
    assert Notebook(data).with_text(edited) == notebook(*after, **how)


def test_a_source_that_is_one_string_stays_one() -> None:
    data = b'{"nbformat": 4, "cells": [{"source": "a = 1\\nb = 2", "cell_type": "code"}]}'
    text = Notebook(data).text.replace("b = 2", "b = 3")
    assert Notebook(data).with_text(text) == data.replace(b"b = 2", b"b = 3")


def test_what_is_put_before_all_cells_goes_into_the_first() -> None:
    data = notebook("x = 1", "y = 2")
    assert Notebook(data).with_text("import os\n" + Notebook(data).text) == notebook(
        "import os\nx = 1", "y = 2"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# !ls", "pass"),
        ("fit(x)", "fit(\n    x,\n)"),  # a command is one line
        ("# cell 2 of the notebook", ""),
    ],
)
def test_an_edit_that_a_notebook_cannot_hold_is_refused(before: str, after: str) -> None:
    book = Notebook(notebook("!ls", "%time fit(x)"))
    assert before in book.text
    with pytest.raises(ValueError, match=r"cell|command"):
        book.with_text(book.text.replace(before, after))


def test_a_cell_that_is_indented_stays_so() -> None:
    book = Notebook(notebook("  !ls\n  fit(x)\n\n  y = 1"))
    edited = book.text.replace("fit(x)", "if x:\n    fit(x)")
    assert book.with_text(edited) == notebook("  !ls\n  if x:\n      fit(x)\n\n  y = 1")


def test_a_command_moves_with_what_is_around_it() -> None:
    book = Notebook(notebook("!ls\nfit(x)"))
    inside = "with a:\n    # !ls\n    fit(x)"
    edited = book.text.replace("# !ls\nfit(x)", inside)
    assert book.with_text(edited) == notebook("with a:\n    !ls\n    fit(x)")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{}", "not a notebook"),
        (b"[]", "not a notebook"),
        (b"\xff", "not a notebook"),
        (b'{"cells": 3}', "not a notebook"),
        (b'{"worksheets": [{"cells": []}]}', "not a notebook"),
        (b'{"cells": [], "metadata": {"kernelspec": {"language": "R"}}}', "a notebook in R"),
        (notebook("x = 1\n" * 999), "cell 1 has more than 998 lines"),
    ],
)
def test_what_is_no_notebook_in_python_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(NotANotebook, match=says):
        Notebook(data)

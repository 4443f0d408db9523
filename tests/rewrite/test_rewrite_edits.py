"""Edits of one file, from the texts in `edits/`: the lines before, and what they become.

A block names its edits, of sites `a`, `b`, … or of lines: `once`, `twice` (asked for twice they are
made once) or in `any order`. Under them stand sources with their sites marked, each with what it
becomes; where it is `refused`, the last edit is, and leaves no trace.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from itertools import permutations
from pathlib import Path

import pytest

from rewriting import FILE, result, script_of
from trainperf.model import Site
from trainperf.rewrite import CannotRewrite

FOLDER = Path(__file__).parent / "edits"
ROW = re.compile(r'^  (".*") -> (refused|unchanged|".*")$', re.MULTILINE)


def rows():
    for path in sorted(FOLDER.glob("*.txt")):
        text = path.read_text(encoding="utf-8").replace("\n    -> ", " -> ")
        for block in text.strip("\n").split("\n\n"):
            title = block.splitlines()[0]
            edits = re.findall(r"^(once|twice|any order): (.*)$", block, re.MULTILINE)
            found = ROW.findall(block)
            assert edits, block
            assert len(found) == sum(line.startswith("  ") for line in block.splitlines()), block
            for before, after in found:
                yield pytest.param(edits, before, after, id=f"{path.stem}: {title} {before}")


def edited(script, sites, edit):
    names = dict(zip("abcd", sites, strict=False))
    names |= {"at": lambda line: Site(FILE, line), "script": script}
    names["line"] = lambda site: dataclasses.replace(site, end_line=0)
    assert eval(f"script.{edit}", names) is not False


@pytest.mark.parametrize(("edits", "before", "after"), list(rows()))
def test_it_becomes_what_the_text_says(edits, before, after):
    hows, asked = {how for how, _ in edits}, [edit for _, edit in edits]
    for order in permutations(asked) if hows == {"any order"} else [asked]:
        script, sites = script_of(ast.literal_eval(before))
        for edit in order[:-1] if after == "refused" else order * (1 + (hows == {"twice"})):
            edited(script, sites, edit)
        if after == "refused":
            kept = script.sources()
            with pytest.raises(CannotRewrite):
                edited(script, sites, order[-1])
            assert script.sources() == kept
        else:
            assert result(script) == (None if after == "unchanged" else ast.literal_eval(after))

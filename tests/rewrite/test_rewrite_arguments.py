"""Arguments set where a run had them from: the edited source is run, and its calls compared."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from rewriting import project_of, site_in
from trainperf.errors import CannotRewrite
from trainperf.rewrite.arguments import Wanted, set_argument
from trainperf.source.origins import RecordedCall

HEAD = "from loaders import DataLoader\n"

LOADERS = """\
CALLS = []


class DataLoader:
    def __init__(self, dataset, batch_size=1, shuffle=False, num_workers=0, pin_memory=False,
                 persistent_workers=False, prefetch_factor=None, drop_last=False):
        CALLS.append({name: value for name, value in locals().items() if name != "self"})
"""
DEFAULTS = {"num_workers": 0, "pin_memory": False, "persistent_workers": False}


CASES = (Path(__file__).parent / "arguments.txt").read_text(encoding="utf-8")
BLOCK = re.compile(r"^--- (live|call|none): (.*?)(?: => (.*))?\n((?:(?!--- ).*\n?)*)", re.MULTILINE)
"""Sources: edited at the place that was live, to hold the text behind the arrow; in the call
itself; or not at all, for the reason behind the arrow."""


def cases(kind):
    found = [each.groups() for each in BLOCK.finditer(CASES)]
    assert len(found) == CASES.count("\n--- ") + 1
    return [
        pytest.param(text, expected, id=title) for of, title, expected, text in found if of == kind
    ]


def files_of(text):
    """Return the files of a case: train.py, and those that begin at `# ---- name`."""
    first, *others = text.split("# ---- ")
    files = {"train.py": first}
    for other in others:
        name, _, source = other.partition("\n")
        files[name] = source
    if "DataLoader(" in first and "import DataLoader" not in first:
        files["train.py"] = HEAD + first
    return files


def calls_of(folder, files):
    """Run train.py among its files; return what its loaders were given."""
    for name, text in {**files, "loaders.py": LOADERS}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("▸", "").replace("◂", ""))
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
    try:
        runpy.run_path(str(folder / "train.py"), run_name="__main__")
        return sys.modules["loaders"].CALLS
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = kept
        for name in set(sys.modules) - before:
            if str(folder) in (getattr(sys.modules[name], "__file__", None) or ""):
                del sys.modules[name]


def edited(files, seen, wanted=None):
    """Return the files with the argument of the marked call set."""
    script, plain = project_of(files), site_in(files)
    set_argument(script, plain, wanted or Wanted("num_workers", "2", 5), seen)
    return {name.removeprefix("/project/"): text for name, text in script.sources().items()}


def seen_of(calls):
    (train,) = [each for each in calls if each["dataset"] == "train"]
    return RecordedCall({name: train[name] for name in DEFAULTS}, DEFAULTS, (), ("train.py",))


@pytest.mark.parametrize(("text", "expected"), cases("live"))
def test_the_one_place_that_was_live_is_edited(text, expected, tmp_path):
    files = files_of(text)
    before = calls_of(tmp_path / "before", files)
    after = edited(files, seen_of(before))
    assert len(after) == 1
    (text,) = after.values()
    assert expected in text
    calls = calls_of(tmp_path / "after", {**files, **after})

    others = [name for name in before[0] if name != "num_workers"]
    assert [[e[n] for n in others] for e in calls] == [[e[n] for n in others] for e in before]
    assert {each["num_workers"] for each in calls if each["dataset"] == "train"} == {2}


@pytest.mark.parametrize(("text", "_"), cases("call"))
def test_where_the_place_is_not_sure_the_call_itself_overrules(text, _, tmp_path):
    files = files_of(text)
    after = edited(files, seen_of(calls_of(tmp_path / "before", files)))
    before, lines = files["train.py"].splitlines(), after["train.py"].splitlines()
    differ = [
        one
        for one, other in zip(lines, before, strict=True)
        if one != other.replace("▸", "").replace("◂", "")
    ]
    assert len(differ) == 1
    assert "DataLoader('train'" in differ[0]
    calls = calls_of(tmp_path / "after", after)
    assert [each["num_workers"] for each in calls] == [2]


@pytest.mark.parametrize(("text", "reason"), cases("none"))
def test_what_no_source_holds_is_left_alone_with_the_reason(text, reason):
    seen = RecordedCall({"num_workers": 0}, DEFAULTS, (), ("train.py",))
    with pytest.raises(CannotRewrite, match=re.escape(reason)):
        edited({"train.py": HEAD + text}, seen)


def test_a_global_that_the_command_sets_by_its_name_is_changed_there():
    """As scripts do that take `--batch_size=8` for every global of theirs."""
    text = "batch_size = 4\nexec(open('configurator.py').read())\n"
    files = {"train.py": f"{HEAD}{text}▸DataLoader('train', batch_size=batch_size)◂\n"}
    wanted = Wanted("batch_size", "8", 1)
    after = edited(files, RecordedCall({"batch_size": 4}, given=("--lr",)), wanted)
    assert "batch_size = 8\n" in after["train.py"]
    with pytest.raises(CannotRewrite, match="--batch_size sets batch_size"):
        edited(files, RecordedCall({"batch_size": 4}, given=("--batch_size",)), wanted)


def test_files_that_import_a_name_from_each_other_are_no_place():
    files = {
        "train.py": f"{HEAD}from a import N\n▸DataLoader('train', num_workers=N)◂\n",
        "a.py": "from b import N\nN = N\n",
        "b.py": "from a import N\nN = 1\n",
    }
    after = edited(files, RecordedCall({"num_workers": 0}, DEFAULTS, (), ("train.py",)))
    assert "num_workers=2" in after["train.py"]

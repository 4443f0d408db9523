"""The literal that a setting of a call comes from, and what must not be taken for it."""

from __future__ import annotations

import ast
import contextlib
from dataclasses import replace

import pytest

from kit.torch_evidence import torch_evidence
from rewriting import result, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes.dataloader._edits import seen_in_run, set_setting
from trainperf.model import Loader

PARSED = "args = parser.parse_args()\n"
LOADER = "loader = ▸DataLoader(data, num_workers=args.workers)◂\n"
OPTION = 'parser.add_argument("--workers", type=int, default=0)\n'
SEEN = {"now": 0, "given": ["--epochs", "-b"]}


def set_to_two(text, seen=SEEN):
    script, (site,) = script_of(text)
    set_setting(script, site, "num_workers", "2", seen)
    return result(script)


OPTIONS = [
    OPTION,
    'parser.add_argument("--workers", default=0, type=int, help="how many")\n',
    'parser.add_argument("-j", "--workers", type=int, default=0, metavar="N")\n',
    'parser.add_argument("-j", "--threads", dest="workers", default=0)\n',
    'parser.add_argument("--workers", type=int, choices=[0, 1, 2], default=0)\n',
    'parser.add_argument(\n    "--workers",\n    type=int,  # processes\n    default=0,\n)\n',
]


@pytest.mark.parametrize("option", OPTIONS)
def test_the_default_of_the_option_is_edited_and_the_call_stays(option):
    after = set_to_two(option + PARSED + LOADER)
    plain = option + PARSED + LOADER.replace("▸", "").replace("◂", "")
    assert after == plain.replace("default=0", "default=2")


@pytest.mark.parametrize(
    "text",
    [
        "WORKERS = 0\nloader = ▸DataLoader(data, num_workers=WORKERS)◂\n",
        "WORKERS: int = 0\nloader = ▸DataLoader(data, 32, True, None, None, WORKERS)◂\n",
        "n, m = 1, 0\nloader = ▸DataLoader(data, num_workers=m)◂\n",
        "how = dict(more, num_workers=0)\nloader = ▸DataLoader(data, **how)◂\n",
        'how = {"num_workers": 0}\nhow.update(a=1)\nloader = ▸DataLoader(data, **how)◂\n',
        "def main():\n    n = 0\n    loader = ▸DataLoader(data, num_workers=n)◂\n",
        "how = dict(num_workers=0, drop_last=True)\nloader = ▸DataLoader(data, **how)◂\n",
        'how = {"num_workers": 0}\na, b = DataLoader(x, **how), ▸DataLoader(y, **how)◂\n',
        f"{OPTION}{PARSED}n = args.workers\nloader = ▸DataLoader(data, num_workers=n)◂\n",
        f"{OPTION}{PARSED}def main(opt):\n    return ▸DataLoader(data, num_workers=opt.workers)◂\n",
        f"{OPTION}args, rest = parser.parse_known_args()\n{LOADER}",
        f"def read():\n    {OPTION}    return parser.parse_args()\nargs = read()\n{LOADER}",
        f"{OPTION}{PARSED}class A:\n    def __init__(self, x):\n        self.workers = x\n{LOADER}",
    ],
)
def test_exactly_one_literal_changes(text):
    before = ast.parse(text.replace("▸", "").replace("◂", ""))
    after = ast.parse(set_to_two(text))
    pairs = zip(ast.walk(before), ast.walk(after), strict=True)
    differ = [
        (one.value, other.value)
        for one, other in pairs
        if isinstance(one, ast.Constant) and one.value != other.value
    ]
    assert differ == [(0, 2)]


REFUSED = [
    # not the one option, or not a plain one
    PARSED + LOADER,
    OPTION * 2 + PARSED + LOADER,
    OPTION + LOADER,
    'parser.add_argument("--workers", type=int)\n' + PARSED + LOADER,
    'parser.add_argument("--workers", type=int, default=count())\n' + PARSED + LOADER,
    'parser.add_argument("--workers", type=int, default="0")\n' + PARSED + LOADER,
    'parser.add_argument("--workers", type=int, default=None)\n' + PARSED + LOADER,
    'parser.add_argument("--workers", type=even, default=0)\n' + PARSED + LOADER,
    'parser.add_argument("--workers", action="count", default=0)\n' + PARSED + LOADER,
    'parser.add_argument("--workers", nargs="?", const=4, default=0)\n' + PARSED + LOADER,
    'parser.add_argument("--workers", type=int, choices=[0, 8], default=0)\n' + PARSED + LOADER,
    'parser.add_argument("--workers", choices=range(n), default=0)\n' + PARSED + LOADER,
    'parser.add_argument("--workers", default=0, **how)\n' + PARSED + LOADER,
    "parser.add_argument(name, default=0)\n" + OPTION + PARSED + LOADER,
    'parser.add_argument("workers", default=0)\n' + PARSED + LOADER,
    # set in another place as well
    OPTION + PARSED + "args.workers = count()\n" + LOADER,
    OPTION + PARSED + "args.workers //= ranks\n" + LOADER,
    OPTION + "parser.set_defaults(workers=0)\n" + PARSED + LOADER,
    OPTION + "parser.set_defaults(**read())\n" + PARSED + LOADER,
    OPTION + PARSED + "setattr(args, name, 0)\n" + LOADER,
    OPTION + PARSED + "loader = ▸DataLoader(data, num_workers=self.workers)◂\n",
    OPTION + "args = yaml.load(text)\nparser.parse_args()\n" + LOADER,
    OPTION + PARSED + "args = merged(args, other)\n" + LOADER,
    OPTION + "from settings import args\nparser.parse_args()\n" + LOADER,
    # names that are bound twice, elsewhere, or mean another thing too
    "n = 0\nn = 0\nloader = ▸DataLoader(data, num_workers=n)◂\n",
    "n = m = 0\nloader = ▸DataLoader(data, num_workers=n)◂\n",
    "n = 0\nfor n in some:\n    loader = ▸DataLoader(data, num_workers=n)◂\n",
    "n = 0\ndef f(n):\n    return ▸DataLoader(data, num_workers=n)◂\n",
    "n = 0\nfrom config import *\nloader = ▸DataLoader(data, num_workers=n)◂\n",
    "from config import n\nloader = ▸DataLoader(data, num_workers=n)◂\n",
    "n = 0\nlabel = labels[n]\nloader = ▸DataLoader(data, num_workers=n)◂\n",
    "n = 0\nn += 1\nloader = ▸DataLoader(data, num_workers=n)◂\n",
    "loader = ▸DataLoader(data, num_workers=n)◂\n",
    # dictionaries that are more than that
    'how = {"num_workers": 0}\nhow.update(more)\nloader = ▸DataLoader(data, **how)◂\n',
    'how = {"num_workers": 0, **more}\nloader = ▸DataLoader(data, **how)◂\n',
    'how = {"num_workers": 0, "num_workers": 0}\nloader = ▸DataLoader(data, **how)◂\n',
    "how = dict(more, num_worker=0)\nloader = ▸DataLoader(data, **how)◂\n",
    "how = dict(num_workers=0)\nPool(**how)\nloader = ▸DataLoader(data, **how)◂\n",
    "how = dict(num_workers=0)\nloader = ▸DataLoader(data, **how, **more)◂\n",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_could_mean_another_value_is_left_alone(text):
    """What the call takes is overruled in the call itself, or nothing is done."""
    script, (site,) = script_of(text)
    plain = text.replace("▸", "").replace("◂", "").splitlines()
    with contextlib.suppress(CannotRewrite):
        set_setting(script, site, "num_workers", "2", SEEN)
    after = (result(script) or "\n".join(plain)).splitlines()

    changed = [one for one, other in zip(plain, after, strict=True) if one != other]
    assert all("DataLoader(data" in line for line in changed)


@pytest.mark.parametrize("text", REFUSED)
def test_without_what_the_run_had_a_name_is_left_alone(text):
    script, (site,) = script_of(text)
    if "**" in text.rpartition("DataLoader")[2]:
        return
    with pytest.raises(CannotRewrite):
        set_setting(script, site, "num_workers", "2")
    assert result(script) is None


@pytest.mark.parametrize("given", ["--workers", "--work", "@"])
def test_an_option_of_another_file_that_the_command_gives_is_not_overruled(given):
    with pytest.raises(CannotRewrite, match="change it in the command"):
        set_to_two("from settings import args\n" + LOADER, {"now": 0, "given": [given]})
    assert "num_workers=2" in set_to_two("from settings import args\n" + LOADER)


GIVEN = ["--workers", "--work", "--w", "-j", "-j4", "-vj", "@"]
OTHERS = ["--worker-seed", "--workers-of-another", "--jobs", "-b", "-", "--"]


@pytest.mark.parametrize("given", GIVEN)
def test_an_option_that_the_command_gives_is_named_in_place_of_an_edit(given):
    option = 'parser.add_argument("-j", "--workers", type=int, default=0)\n'
    with pytest.raises(CannotRewrite, match="--workers sets num_workers: change it in the command"):
        set_to_two(option + PARSED + LOADER, {"now": 0, "given": [given]})


@pytest.mark.parametrize("given", OTHERS)
def test_other_options_of_the_command_do_not_matter(given):
    option = 'parser.add_argument("-j", "--workers", type=int, default=0)\n'
    seen = {"now": 0, "given": [given]}
    assert "default=2" in set_to_two(option + PARSED + LOADER, seen)


PARSER = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("-v", action="store_true")
parser.add_argument("-j", "--workers", type=int, default=0)
parser.add_argument("--worker-seed", type=int, default=0)
args = parser.parse_args(command)
"""
COMMANDS = [
    [],
    ["-v"],
    ["--worker-seed", "0"],
    ["--worker-s=0"],
    ["--workers", "0"],
    ["--workers=0"],
    ["--workers=0", "-v"],
    ["-j", "0"],
    ["-j0"],
    ["-vj0"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_default_is_edited_just_where_argparse_itself_would_take_it(command):
    """An edit that the command overrules would be tried, and told to bring nothing."""
    seen = {"now": 0, "given": [word.partition("=")[0] for word in command if word[0] == "-"]}
    probe: dict[str, object] = {"command": command}
    exec(PARSER.replace("int, default=0)", "int, default=2)", 1), probe)
    takes_it = probe["args"].workers == 2
    try:
        after = set_to_two(PARSER + LOADER, seen)
    except CannotRewrite:
        after = None
    assert (after is not None) == takes_it
    if after is not None:
        made: dict[str, object] = {"command": command}
        exec(after.replace("loader =", "# loader ="), made)
        assert made["args"].workers == 2


@pytest.mark.parametrize("seen", [{"now": 4}, {}, None])
def test_a_default_that_the_run_did_not_have_is_left_alone(seen):
    with pytest.raises(CannotRewrite, match="--workers sets num_workers: change it in the command"):
        set_to_two(OPTION + PARSED + LOADER, seen)
    constant = "n = 0\nloader = ▸DataLoader(data, num_workers=n)◂\n"
    if seen:
        assert set_to_two(constant, seen) == "n = 0\nloader = DataLoader(data, num_workers=2)\n"
    else:
        with pytest.raises(CannotRewrite, match="num_workers is n: make that 2"):
            set_to_two(constant, seen)


def test_a_number_and_a_truth_are_not_each_others_default():
    script, (site,) = script_of("pin = 0\nloader = ▸DataLoader(data, pin_memory=pin)◂\n")
    set_setting(script, site, "pin_memory", "True", {"now": False})
    assert result(script) == "pin = 0\nloader = DataLoader(data, pin_memory=True)\n"


SEVERAL = Loader(role="evaluation", iterable=True, sharded=False)


def test_the_options_of_the_command_are_kept_without_their_values():
    words = ["python", "train.py", "--key=secret", "-j4", "3", "@more.txt"]
    case = torch_evidence(facts={"command_words": words})
    seen = seen_in_run(case)
    assert (seen["given"], seen["scripts"]) == (["--key", "-j4", "@"], ["train.py"])
    assert seen_in_run(torch_evidence())["given"] == []


def test_a_default_that_a_loader_shares_which_cannot_take_workers_is_left_alone():
    case = torch_evidence()
    assert case.torch_ is not None
    both = replace(case, torch_=replace(case.torch_, loaders=(*case.torch_.loaders, SEVERAL)))
    assert seen_in_run(both) == {}
    with pytest.raises(CannotRewrite, match="change it in the command"):
        set_to_two(OPTION + PARSED + LOADER, seen_in_run(both))


def test_an_option_that_the_command_gives_is_given_once_more():
    script, (site,) = script_of(OPTION + PARSED + LOADER)
    seen = {"now": 0, "given": ["--workers"], "reached": True}
    set_setting(script, site, "num_workers", "2", seen)
    assert result(script) is None
    assert script.command.words == ("--workers", "2")


def test_a_command_that_does_not_end_in_the_scripts_own_words_is_left_alone():
    script, (site,) = script_of(OPTION + PARSED + LOADER)
    with pytest.raises(CannotRewrite, match="change it in the command"):
        set_setting(script, site, "num_workers", "2", {"now": 0, "given": ["--workers"]})


def test_an_option_that_is_reckoned_with_is_named_as_the_command_has_it():
    script, (site,) = script_of(
        OPTION + PARSED + LOADER.replace("args.workers", "max(args.workers, 0)")
    )
    with pytest.raises(CannotRewrite, match=r"^--workers sets num_workers"):
        set_setting(script, site, "num_workers", "2", {"now": 0, "given": ["--workers"]})


def test_a_value_that_the_option_does_not_take_is_not_given():
    text = OPTION.replace("default", "choices=[0, 1], default") + PARSED + LOADER
    script, (site,) = script_of(text)
    with pytest.raises(CannotRewrite, match="does not take 2"):
        set_setting(script, site, "num_workers", "2", {"now": 0, "given": [], "reached": True})

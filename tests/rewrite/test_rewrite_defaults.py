"""The literal that a setting of a call comes from, and what must not be taken for it."""

from __future__ import annotations

import ast
import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from fixes.case_text import evidence_of, repair
from rewriting import result, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes.dataloader._loader import seen_in_run
from trainperf.model import Loader

PARSED = "args = parser.parse_args()\n"
LOADER = "loader = ▸DataLoader(data, num_workers=args.workers)◂\n"
OPTION = 'parser.add_argument("--workers", type=int, default=0)\n'
SEEN = {"now": 0, "given": ["--epochs", "-b"]}


def rows(kind):
    lines = (Path(__file__).parent / "defaults.txt").read_text(encoding="utf-8").splitlines()
    return [ast.literal_eval(line[len(kind) :].strip()) for line in lines if line.startswith(kind)]


def set_workers(script, site, seen):
    repair("torch_workers", script, (site,), {"workers": 2, **(seen or {})})


def set_to_two(text, seen=SEEN):
    script, (site,) = script_of(text)
    set_workers(script, site, seen)
    return result(script)


@pytest.mark.parametrize("text", rows("one"))
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


@pytest.mark.parametrize("text", rows("left"))
def test_what_could_mean_another_value_is_left_alone(text):
    """What the call takes is overruled in the call itself, or nothing is done."""
    script, (site,) = script_of(text)
    plain = text.replace("▸", "").replace("◂", "").splitlines()
    with contextlib.suppress(CannotRewrite):
        set_workers(script, site, SEEN)
    after = (result(script) or "\n".join(plain)).splitlines()

    changed = [one for one, other in zip(plain, after, strict=True) if one != other]
    assert all("DataLoader(data" in line for line in changed)


@pytest.mark.parametrize("text", rows("left"))
def test_without_what_the_run_had_a_name_is_left_alone(text):
    script, (site,) = script_of(text)
    if "**" in text.rpartition("DataLoader")[2]:
        return
    with pytest.raises(CannotRewrite):
        set_workers(script, site, None)
    assert result(script) is None


@pytest.mark.parametrize("given", ["--work", "--w", "-j", "-j4", "-vj", "@"])
def test_an_option_that_the_command_gives_is_named_in_place_of_an_edit(given):
    option = 'parser.add_argument("-j", "--workers", type=int, default=0)\n'
    with pytest.raises(CannotRewrite, match="--workers sets num_workers: change it in the command"):
        set_to_two(option + PARSED + LOADER, {"now": 0, "given": [given]})
    with pytest.raises(CannotRewrite, match="change it in the command"):
        set_to_two("from settings import args\n" + LOADER, {"now": 0, "given": [given, "@"]})


@pytest.mark.parametrize("given", ["--worker-seed", "--workers-of-another", "-b", "-", "--"])
def test_other_options_of_the_command_do_not_matter(given):
    seen = {"now": 0, "given": [given]}
    assert "default=2" in set_to_two(OPTION + PARSED + LOADER, seen)


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
    repair("torch_pin_memory", script, (site,), {"now": False})
    assert result(script) == "pin = 0\nloader = DataLoader(data, pin_memory=True)\n"


SEVERAL = Loader(role="evaluation", iterable=True, sharded=False)


def test_the_options_of_the_command_are_kept_without_their_values():
    words = ["python", "train.py", "--key=secret", "-j4", "3", "@more.txt"]
    case = evidence_of(f"torch_healthy | facts.command_words = {json.dumps(words)}")
    seen = seen_in_run(case)
    assert (seen["given"], seen["scripts"]) == (["--key", "-j4", "@"], ["train.py"])
    assert seen_in_run(evidence_of("torch_healthy | facts.command_words = []"))["given"] == []


def test_a_default_that_a_loader_shares_which_cannot_take_workers_is_left_alone():
    case = evidence_of("seed_torch_waiting_items")
    assert case.torch_ is not None
    both = replace(case, torch_=replace(case.torch_, loaders=(*case.torch_.loaders, SEVERAL)))
    assert seen_in_run(both) == {}
    with pytest.raises(CannotRewrite, match="change it in the command"):
        set_to_two(OPTION + PARSED + LOADER, seen_in_run(both))


def test_an_option_that_the_command_gives_is_given_once_more():
    script, (site,) = script_of(OPTION + PARSED + LOADER)
    seen = {"now": 0, "given": ["--workers"], "reached": True}
    set_workers(script, site, seen)
    assert result(script) is None
    assert script.arguments == ("--workers", "2")


def test_a_command_that_does_not_end_in_the_scripts_own_words_is_left_alone():
    script, (site,) = script_of(OPTION + PARSED + LOADER)
    with pytest.raises(CannotRewrite, match="change it in the command"):
        set_workers(script, site, {"now": 0, "given": ["--workers"]})


def test_an_option_that_is_reckoned_with_is_named_as_the_command_has_it():
    script, (site,) = script_of(
        OPTION + PARSED + LOADER.replace("args.workers", "max(args.workers, 0)")
    )
    with pytest.raises(CannotRewrite, match=r"^--workers sets num_workers"):
        set_workers(script, site, {"now": 0, "given": ["--workers"]})


def test_a_value_that_the_option_does_not_take_is_not_given():
    text = OPTION.replace("default", "choices=[0, 1], default") + PARSED + LOADER
    script, (site,) = script_of(text)
    with pytest.raises(CannotRewrite, match="does not take 2"):
        set_workers(script, site, {"now": 0, "given": [], "reached": True})

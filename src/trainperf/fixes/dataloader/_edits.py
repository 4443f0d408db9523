"""Settings of a `DataLoader` changed in the call that builds it, or where that takes them from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite

if TYPE_CHECKING:
    from trainperf.model import Evidence, Site
    from trainperf.rewrite import Script

POSITIONS = {"num_workers": 5, "collate_fn": 6, "pin_memory": 7}
"""Places among the positional arguments of `DataLoader`; all other settings that fixes
change are keyword-only (PyTorch 2.13)."""

PLAIN = re.compile(r"[A-Za-z_][\w.]*")
GETS = '.get("num_workers")'
ENVIRONMENT = re.compile(r"\b(environ|getenv)\b")


def seen_in_run(evidence: Evidence, now: int | bool) -> dict[str, Any]:
    """Return what a finding's data must hold for a default to be edited in place of a call.

    `now` is what the loader had in the run; a default that differs was not used. `given`
    are the options of the command, by which the user chooses. Empty where the default may
    also be that of a loader which cannot take workers.
    """
    others = [one for one in evidence.torch.loaders if one.role != "training"]
    if any((one.iterable and not one.sharded) or one.shared_state for one in others):
        return {}
    return {"now": now, "given": options_given(evidence)}


def options_given(evidence: Evidence) -> list[str]:
    """Return the options of the run's command, "@" for a file of further ones."""
    words = [str(word) for word in evidence.facts.get("command_words") or ()]
    given = {word.partition("=")[0] for word in words if word.startswith("-")}
    return sorted(given | {"@" for word in words if word.startswith("@")})


def set_setting(
    script: Script, site: Site, name: str, value: str, seen: Mapping[str, Any] | None = None
) -> None:
    """Give the loader built at `site` another setting.

    Where the call takes it from a constant or an option of `argparse` in the same file,
    its default is edited, if the run had it: `seen` is the finding's data, with what
    `seen_in_run` says. What the call takes from elsewhere, a configuration or `**keywords`,
    is overruled in the call itself. Raises `CannotRewrite` where the call is not of
    `DataLoader`, or where the command or a variable of the environment sets it.
    """
    check_call(script, site)
    old, seen = written(script, site, name), seen or {}
    named = old is not None and not _literal(old)
    if (named or old is None) and _set_default(script, site, name, value, seen):
        return
    if named and ("now" not in seen or ENVIRONMENT.search(old or "")):
        raise CannotRewrite(f"{name} is {old}: make that {value} where it is chosen")
    option = f"--{(old or '').rpartition('.')[2].rstrip(')')}"
    if named and option_given(seen.get("given") or (), (option, option.replace("_", "-"))):
        raise CannotRewrite(f"{option} sets {name}: change it in the command")
    script.set_keyword_or_extend(site, name, value, position=POSITIONS.get(name))


def _set_default(
    script: Script, site: Site, name: str, value: str, seen: Mapping[str, Any]
) -> bool:
    """Edit the default that a setting comes from; False where that cannot be done.

    Raises `CannotRewrite` with the option to give where the run did not use its default.
    """
    if not _literal(value):
        return False
    try:
        where, found = script.origin(site, POSITIONS.get(name), name)
    except CannotRewrite:
        return False
    wanted = ast.literal_eval(value)
    if type(wanted) is not type(found.value):
        return False
    option = max(found.options, key=len, default="")
    if found.choices is not None and wanted not in found.choices:
        raise CannotRewrite(f"{option}, which sets {name}, does not take {value}")
    used = "now" in seen and seen["now"] == found.value
    if used and not option_given(seen.get("given") or (), found.options):
        script.replace_call(where, value)
        return True
    if option and type(wanted) is int:
        raise CannotRewrite(f"{option} sets {name}: change it in the command")
    return False


def option_given(given: Iterable[str], options: Iterable[str]) -> bool:
    """Say whether a command may set an option: by its name, by how that begins, or by a file.

    `argparse` takes `--work 4` for `--workers`, `-vj4` for `-v -j 4`, and `@file`.
    """
    for option in options:
        for word in given:
            short = len(option) == 2 and not word.startswith("--") and option[1] in word[1:]
            if short or word.startswith("@") or (len(word) > 2 and option.startswith(word)):
                return True
    return False


def set_where_workers(script: Script, site: Site, name: str, with_workers: str, none: str) -> None:
    """Set what `DataLoader` only takes with workers, so that none of them stays allowed.

    `with_workers` and `none` are values as source text; the choice between them is
    written out where `num_workers` is a name. Raises `CannotRewrite` where it is
    neither a number nor a name.
    """
    check_call(script, site)
    workers = written(script, site, "num_workers")
    if workers is None:
        workers = _of_keywords(script, site)
    if not _literal(workers):
        if not (PLAIN.fullmatch(workers) or workers.endswith(GETS)):
            raise CannotRewrite(f"num_workers is {workers}, which may become 0")
        with_workers = f"{with_workers} if {workers} else {none}"
    set_setting(script, site, name, with_workers)


def _of_keywords(script: Script, site: Site) -> str:
    """Return what `num_workers` is in the one `**keywords` of the call, as source text."""
    call = ast.parse(f"({script.expression(site)})", mode="eval").body
    assert isinstance(call, ast.Call)
    passed = [ast.unparse(each.value) for each in call.keywords if each.arg is None]
    if len(passed) != 1 or not PLAIN.fullmatch(passed[0]):
        raise CannotRewrite("num_workers is not written out in the call, so it may become 0")
    return f"{passed[0]}{GETS}"


def written(script: Script, site: Site, name: str) -> str | None:
    """Return the source of a setting in the call at `site`, None if it is left out."""
    place = POSITIONS.get(name)
    if place is None:
        return script.call_keywords(site).get(name)
    argument = script.argument(site, place, name)
    return None if argument is None else script.expression(argument)


def check_call(script: Script, site: Site) -> None:
    """Raise `CannotRewrite` unless the call at `site` is one of `DataLoader` itself.

    A subclass or a function of the user's may take its arguments in another order.
    """
    call = ast.parse(f"({script.expression(site)})", mode="eval").body
    name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
    if name.rpartition(".")[2] != "DataLoader":
        raise CannotRewrite(f"the loader is built by {name or 'something'}, not by DataLoader")


def _literal(text: str) -> bool:
    try:
        ast.literal_eval(f"({text})")
    except (ValueError, TypeError, SyntaxError):
        return False
    return True

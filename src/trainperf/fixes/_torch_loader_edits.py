"""Settings of a `DataLoader` changed in the call that builds it, and in no other."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

POSITIONS = {"num_workers": 5, "pin_memory": 7}
"""Places among the positional arguments of `DataLoader`; all other settings that fixes
change are keyword-only (PyTorch 2.13)."""

PLAIN = re.compile(r"[A-Za-z_][\w.]*")


def set_setting(script: Script, site: Site, name: str, value: str) -> None:
    """Give the loader built at `site` another setting.

    Raises `CannotRewrite` where the call is not of `DataLoader`, or where the setting
    comes from somewhere else (an argument of the script, a variable of the
    environment): the user means to choose it there.
    """
    check_call(script, site)
    old = written(script, site, name)
    if old is not None and not _literal(old):
        raise CannotRewrite(f"{name} is {old}: make that {value} where it is chosen")
    script.set_keyword(site, name, value, position=POSITIONS.get(name))


def set_where_workers(script: Script, site: Site, name: str, with_workers: str, none: str) -> None:
    """Set what `DataLoader` only takes with workers, so that none of them stays allowed.

    `with_workers` and `none` are values as source text; the choice between them is
    written out where `num_workers` is a name. Raises `CannotRewrite` where it is
    neither a number nor a name.
    """
    check_call(script, site)
    workers = written(script, site, "num_workers")
    if workers is None:
        raise CannotRewrite("num_workers is not written out in the call, so it may become 0")
    if not _literal(workers):
        if not PLAIN.fullmatch(workers):
            raise CannotRewrite(f"num_workers is {workers}, which may become 0")
        with_workers = f"{with_workers} if {workers} else {none}"
    set_setting(script, site, name, with_workers)


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

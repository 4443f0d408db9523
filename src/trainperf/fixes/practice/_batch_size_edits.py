"""A larger batch, where a loop's batch size is chosen."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite
from trainperf.model import Evidence
from trainperf.rewrite.arguments import RecordedCall, set_at_origin
from trainperf.rewrite.wanted import Wanted

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

NAME = "batch_size"
PLACES = {"batch": 0, "padded_batch": 0, "DataLoader": 1, "fit": 2}
"""Where the batch size stands among the positional arguments of the calls that take it."""

STEPS, STEPS_PLACE = "steps_per_epoch", 12
"""The argument of `fit` with the steps of an epoch, and its place."""

PLAIN = ast.Name | ast.Attribute | ast.Call | ast.Subscript
"""Expressions that need no parentheses beside an operator."""

KERAS_DEFAULT = 32
"""The batch size of `fit` without an argument (Keras 2 and 3)."""

ARRAYS = ("numpy", "tensors")
"""Inputs of `fit` that it batches itself."""


def chosen(evidence: Evidence) -> tuple[Site, int] | None:
    """Return the call that makes the batches of the loop, and their size; None if not known."""
    loop = evidence.loop
    own_loop = evidence.framework.name == "torch" and loop.kind != "fit"
    if own_loop or loop.input_kind == "DataLoader":
        loaders = [one for one in evidence.torch.loaders if one.role == "training"]
        if len(loaders) == 1 and loaders[0].where and loaders[0].batch_size:
            return loaders[0].where, loaders[0].batch_size
        return None
    stages = evidence.stages_
    if loop.kind == "fit" and loop.input_kind in ARRAYS and loop.where and loop.batch_size:
        return loop.where, loop.batch_size
    if not isinstance(stages, tuple):
        return None
    batches = [one for one in stages if one.op in PLACES and one.by_user]
    size = batches[-1].arguments.get(NAME) if batches else None
    again = any(one.op in ("unbatch", "rebatch") for one in stages)
    if not batches or batches[-1].where is None or not isinstance(size, int) or again:
        return None
    return (batches[-1].where, size) if size > 0 else None


def enlarge(script: Script, site: Site, data: Mapping[str, Any], fit: Site | None = None) -> None:
    """Make the batches of the call at `site` larger, by `samples_per_step` of `data`.

    The constant or the default of an option that it takes is changed where the run had that,
    with all else that reads it; what the call is given otherwise, in the call. `fit` is the call
    that trains, where that is another: an epoch keeps its samples if that is told its steps.
    """
    times = int(data["samples_per_step"])
    call = ast.parse(f"({script.expression(site)})", mode="eval").body
    called = ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
    if called not in PLACES:
        raise CannotRewrite(f"the batches are made by {called or 'something'}")
    given = script.argument(site, PLACES[called], NAME)
    names = frozenset() if given is None else _names_of(script, given)
    fit = site if called == "fit" else fit
    if fit is not None and fit.exact:
        at_origin = _set(script.copy(), site, called, data)
        _fewer_steps(script, fit, names if at_origin else frozenset(), times)
    _set(script, site, called, data)


def _set(script: Script, site: Site, called: str, data: Mapping[str, Any]) -> bool:
    """Make the batches of a call larger; whether that was done where the call has its size from."""
    times, now, place = int(data["samples_per_step"]), int(data[NAME]), PLACES[called]
    given = script.argument(site, place, NAME)
    text = "" if given is None else script.expression(given)
    if given is not None and text.isdigit():
        script.replace_call(given, str(times * int(text)))
        return False
    wanted = Wanted(NAME, str(times * now), place)
    try:
        set_at_origin(
            script, site, wanted, RecordedCall.of({**data, "now": now}, NAME, {}), shared=True
        )
        return given is not None
    except CannotRewrite:
        if given is None:
            _by_default(script, site, called, now, times)
            return False
    plain = isinstance(ast.parse(text, mode="eval").body, PLAIN)
    script.replace_call(given, f"{times} * {text}" if plain else f"{times} * ({text})")
    return False


def _fewer_steps(script: Script, fit: Site, changed: frozenset[str], times: int) -> None:
    """Divide the steps of an epoch, unless they are worked out from what was `changed`."""
    given = script.argument(fit, STEPS_PLACE, STEPS)
    if given is None or script.expression(given) == "None":
        return
    text = script.expression(given)
    if text.isdigit():
        script.replace_call(given, str(max(1, int(text) // times)))
        return
    node = ast.parse(text, mode="eval").body
    if changed & _names_of(script, given):
        return
    if changed and not isinstance(node, ast.Name | ast.Attribute | ast.BinOp):
        raise CannotRewrite(f"whether {STEPS} follows the batch size is not plain")
    text = text if isinstance(node, PLAIN) else f"({text})"
    script.replace_call(given, f"{text} // {times}")


def _names_of(script: Script, site: Site) -> frozenset[str]:
    """The names that an expression reads, and those that these are bound to, and so on."""
    bound: dict[str, list[ast.expr]] = {}
    for one in ast.walk(script.module(site.file)):
        if isinstance(one, ast.Assign):
            for target in one.targets:
                if isinstance(target, ast.Name):
                    bound.setdefault(target.id, []).append(one.value)
    known: set[str] = set()
    ahead = [ast.parse(script.expression(site), mode="eval").body]
    while ahead:
        for name in _read_in(ahead.pop()):
            if name not in known:
                known.add(name)
                ahead += bound.get(name, [])
    return frozenset(known)


def _read_in(node: ast.expr) -> Iterator[str]:
    """The names in an expression: `batch_size` of `args.batch_size`, `ds` of `ds.cardinality()`."""
    called = {id(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)}
    fields = [one for one in ast.walk(node) if isinstance(one, ast.Attribute)]
    of_fields = {id(one.value) for one in fields if id(one) not in called}
    yield from (one.attr for one in fields if id(one) not in called)
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and id(one) not in of_fields | called:
            yield one.id


def _by_default(script: Script, site: Site, called: str, now: int, times: int) -> None:
    given = script.call_keywords(site)
    if called != "fit" or now != KERAS_DEFAULT or STEPS in given:
        raise CannotRewrite(f"{NAME} is not written out in the call")
    script.set_keyword(site, NAME, str(times * now))

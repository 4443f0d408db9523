"""A larger batch, where a loop's batch size is chosen."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite
from trainperf.model import Evidence
from trainperf.rewrite.arguments import Seen, Wanted, set_at_origin

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

NAME = "batch_size"
PLACES = {"batch": 0, "padded_batch": 0, "DataLoader": 1, "fit": 2}
"""Where the batch size stands among the positional arguments of the calls that take it."""

KERAS_DEFAULT = 32
"""The batch size of `fit` without an argument (Keras 2 and 3)."""

ARRAYS = ("numpy", "tensors")
"""Inputs of `fit` that it batches itself."""


def chosen(evidence: Evidence) -> tuple[Site, int] | None:
    """Return the call that makes the batches of the loop, and their size; None if not known."""
    if evidence.framework.name == "torch":
        loaders = [one for one in evidence.torch.loaders if one.role == "training"]
        if len(loaders) == 1 and loaders[0].where and loaders[0].batch_size:
            return loaders[0].where, loaders[0].batch_size
        return None
    loop, stages = evidence.loop, evidence.stages_
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


def enlarge(script: Script, site: Site, data: Mapping[str, Any]) -> None:
    """Make the batches of the call at `site` larger, by `samples_per_step` of `data`.

    The constant or the default of an option that it takes is changed where the run had that,
    with all else that reads it; what the call is given otherwise, in the call.
    """
    times = int(data["samples_per_step"])
    call = ast.parse(f"({script.expression(site)})", mode="eval").body
    called = ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
    if called not in PLACES:
        raise CannotRewrite(f"the batches are made by {called or 'something'}")
    now, place = int(data[NAME]), PLACES[called]
    given = script.argument(site, place, NAME)
    text = "" if given is None else script.expression(given)
    if given is not None and text.isdigit():
        script.replace_call(given, str(times * int(text)))
        return
    wanted = Wanted(NAME, str(times * now), place)
    try:
        set_at_origin(script, site, wanted, Seen.of({**data, "now": now}, NAME, {}), shared=True)
        return
    except CannotRewrite:
        if given is None:
            _by_default(script, site, called, now, times)
            return
    node = ast.parse(text, mode="eval").body
    plain = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    script.replace_call(given, f"{times} * {text}" if plain else f"{times} * ({text})")


def _by_default(script: Script, site: Site, called: str, now: int, times: int) -> None:
    given = script.call_keywords(site)
    if called != "fit" or now != KERAS_DEFAULT or "steps_per_epoch" in given:
        raise CannotRewrite(f"{NAME} is not written out in the call")
    script.set_keyword(site, NAME, str(times * now))

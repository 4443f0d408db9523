"""A model compiled block by block: the code of one serves for all of its class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainperf.model import Site, TorchModel
    from trainperf.rewrite import Script

COMPILED, WHOLE, BY_BLOCK = "compiled", "the model", "each block"
"""Key of a finding's data, and its two values."""
NAMES = ("block", "each_block", "compiled_block")


def by_block(model: TorchModel) -> dict[str, Any]:
    """Return what a finding's data holds for both ways to be tried; nothing without blocks."""
    if not model.blocks:
        return {}
    return {
        "blocks": [asdict(one) for one in model.blocks],
        "variants": [{COMPILED: WHOLE}, {COMPILED: BY_BLOCK}],
    }


def compile_blocks(
    script: Script,
    site: Site,
    name: str,
    blocks: Sequence[dict[str, Any]],
    keywords: str = "",
    instead: bool = False,
) -> None:
    """Compile all blocks of the model `name` behind the statement at `site`, or in place of it.

    `keywords` are those of the call, as source.
    """
    free = script.free_name(site.file, *NAMES)
    made = "\n".join(
        f"for {free} in {name}{one['path']}:\n    {free}.compile({keywords})" for one in blocks
    )
    if instead:
        script.replace_statement(site, made)
    else:
        script.insert_after(site, made)

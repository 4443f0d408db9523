"""The source of the user's pipelines: what their calls take, and functions put beside them."""

from __future__ import annotations

import ast
import re

from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.arguments import argument
from trainperf.source.bodies import function_of
from trainperf.source.module import Module
from trainperf.source.scopes import Function

_MODULES = {
    "collections": "collections",
    "futures": "concurrent.futures",
    "tf": "tensorflow",
    "np": "numpy",
}


def put_in(script: Script, file: str, *functions: str) -> str:
    """Put functions, which call each other, into a file, and return the name of the last.

    `tf.`, `np.`, `futures.` and `collections.` stand for the modules, as the file names them.
    """
    text, name = "\n\n".join(functions), ""
    for short, module in _MODULES.items():
        if f"{short}." in text:
            text = re.sub(rf"\b{short}\.", f"{script.module_name(file, module)}.", text)
    for own in re.findall(r"^def (\w+)", text, re.MULTILINE):
        name = script.free_name(file, own)
        text = re.sub(rf"\b{own}\b", name, text)
    script.insert_function(file, text)
    return name


def mapped(script: Script, site: Site) -> tuple[Module, Function | ast.Lambda | None]:
    """Return the file of the call at `site` and the function it takes; None if not in it."""
    module = script.linked(site.file)
    return module, function_of(module, argument(script.call(site), "map_func", 0))

"""How a file of the user's reaches Keras."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.arguments import starred


def keras_name(script: Script, file: str) -> str:
    """Return how `file` reaches Keras, by a name it has already where there is one."""
    for known, rest in (("tensorflow", ".keras"), ("tensorflow.keras", "")):
        trying = script.copy()
        name = trying.module_name(file, known)
        if trying.sources() == script.sources():  # no import had to be added
            return name + rest
    return script.module_name(file, "keras")


def fit_call(script: Script, site: Site) -> ast.Call:
    """Return the call of `fit` at `site`, all arguments of which can be seen."""
    call = script.call(site)
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "fit":
        raise CannotRewrite("it is not called as `fit` of a model")
    if starred(call):
        raise CannotRewrite("not all arguments of `fit` can be seen")
    return call

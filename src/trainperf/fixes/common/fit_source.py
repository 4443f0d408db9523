"""The call of Keras's `fit` as it stands in the source."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.source.arguments import starred

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script


def fit_call(script: Script, site: Site) -> ast.Call:
    """Return the call of `fit` at `site`, all arguments of which can be seen."""
    call = script.call(site)
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "fit":
        raise CannotRewrite("it is not called as `fit` of a model")
    if starred(call):
        raise CannotRewrite("not all arguments of `fit` can be seen")
    return call

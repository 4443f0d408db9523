"""The call of Keras's `fit` as it stands in the source."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.source.arguments import argument, starred

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


def dataset_of_fit(script: Script, site: Site) -> tuple[int | str, str]:
    """Return which argument the dataset of the `fit` at `site` is, and its source.

    Raises `CannotRewrite` where it has no name, by which it could be spoken of twice.
    """
    call = fit_call(script, site)
    given = argument(call, "x", 0)
    if not isinstance(given, ast.Name | ast.Attribute):
        raise CannotRewrite("the dataset that `fit` is given has no name")
    return (0 if call.args else "x"), ast.unparse(given)

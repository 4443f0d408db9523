"""How a file of the user's reaches Keras."""

from __future__ import annotations

import ast
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes.common.trainers import seen_in_call
from trainperf.model import Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.rewrite.arguments import RecordedCall, Wanted, set_argument
from trainperf.source.arguments import starred


def keras_name(script: Script, file: str, module: str) -> str:
    """Return how `file` reaches Keras, by a name it has already where there is one."""
    if module == "keras":
        for known, rest in (("tensorflow", ".keras"), ("tensorflow.keras", "")):
            trying = script.copy()
            name = trying.module_name(file, known)
            if trying.sources() == script.sources():  # no import had to be added
                return name + rest
    return script.module_name(file, module)


def fit_call(script: Script, site: Site) -> ast.Call:
    """Return the call of `fit` at `site`, all arguments of which can be seen."""
    call = script.call(site)
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "fit":
        raise CannotRewrite("it is not called as `fit` of a model")
    if starred(call):
        raise CannotRewrite("not all arguments of `fit` can be seen")
    return call


DEFAULTS: dict[str, object] = {
    "jit_compile": "auto",
    "run_eagerly": False,
    "steps_per_execution": 1,
}
"""Their values where `compile` is not given them (Keras 3)."""


def compile_seen(evidence: Evidence) -> dict[str, Any]:
    """Return what a finding's data must hold for an argument to be set where it came from."""
    model = evidence.model
    return seen_in_call(
        evidence,
        jit_compile=model.jit_requested,
        run_eagerly=bool(model.run_eagerly),
        steps_per_execution=evidence.loop.steps_per_execution,
    )


def set_compile(script: Script, finding: Finding, name: str, value: str) -> None:
    """Give the call of `compile` an argument; raises `CannotRewrite` as `set_argument` does."""
    found = RecordedCall.of(finding.data, name, DEFAULTS)
    set_argument(script, finding.where[0], Wanted(name, value), found)

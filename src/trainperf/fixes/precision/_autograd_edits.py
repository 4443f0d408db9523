"""Autograd functions of the user's own, made to compute under the autocast of their call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.source.statements import Function

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

KEEPS = {"forward": "custom_fwd", "backward": "custom_bwd"}


def keep_autocast(script: Script, site: Site, device: str) -> None:
    """Decorate the autograd functions in the file of `site`; raises `CannotRewrite` if none is.

    A backward runs without autocast unless `custom_bwd` brings back that of its forward.
    """
    methods = [
        (cls, method)
        for cls in ast.walk(script.module(site.file))
        if isinstance(cls, ast.ClassDef) and any(map(_is_function, cls.bases))
        for method in cls.body
        if isinstance(method, Function) and method.name in KEEPS
    ]
    if any("custom_" in ast.unparse(each) for _, m in methods for each in m.decorator_list):
        raise CannotRewrite("its autograd functions say themselves what autocast they run under")
    if any("setup_context" in ast.unparse(cls) for cls, _ in methods):
        raise CannotRewrite("its autograd functions set up their context apart")
    if not methods:
        raise CannotRewrite("no autograd function of this file keeps products in float32")
    torch = script.module_name(site.file, "torch", site)
    for _, method in methods:
        line = min([method.lineno, *(each.lineno for each in method.decorator_list)])
        head = type(site)(site.file, line, method.name)
        script.decorate(head, f'{torch}.amp.{KEEPS[method.name]}(device_type="{device}")')


def _is_function(base: ast.expr) -> bool:
    return ast.unparse(base) in ("torch.autograd.Function", "autograd.Function", "Function")

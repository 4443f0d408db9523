"""Losses, or a sum of them, kept with the graph that they were computed by."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes import Example, Fix
from trainperf.fixes.common.many import make_those_that_can_be
from trainperf.fixes.common.torch_cases import torch_evidence
from trainperf.fixes.over_time import _growth as growth
from trainperf.fixes.over_time._growth import LATE, LIST, MEMORY, over_time
from trainperf.model import Evidence, Finding, Grown, Missing, Site

if TYPE_CHECKING:
    from trainperf.rewrite import Script

KEPT = replace(LIST, holds_graph=True)
SUM = Grown("graph", "total", ((40, 40), (240, 240), (640, 640)), "Tensor", holds_graph=True)


class GraphKept(Fix):
    """Keep results without their graph: `losses.append(loss.detach())`.

    ## Why it is slow
    A loss holds the graph that it was computed by: every operation, and what is left of its
    tensors. As long as the loss is in a list, or in a sum, all of that stays. Memory grows with
    each step, and what goes through the list or the sum takes longer and longer.

    ## What changes
    `losses.append(loss)` becomes `losses.append(loss.detach())`: the same number, without its
    graph, still on its device. `total += loss` becomes `total += loss.detach()`.

    ## When not to
    Where `backward` is called on what was collected.
    """

    framework = "torch"
    category = "memory"
    counted = True

    silent = [
        torch_evidence(),
        torch_evidence(over_time_=Missing("too short")),
        torch_evidence(over_time_=over_time()),
        # numbers in a list
        torch_evidence(over_time_=over_time(1.3, memory=MEMORY, grown=(LIST,))),
    ]
    fires = [
        torch_evidence(over_time_=over_time(grown=(KEPT,))),
        torch_evidence(over_time_=over_time(1.4, memory=MEMORY, grown=(KEPT, SUM))),
        torch_evidence(over_time_=over_time(grown=(SUM,))),
    ]
    examples = [
        Example(
            before="for x in data:\n    loss = step(x)\n    ▸losses.append(loss)◂\n",
            after="for x in data:\n    loss = step(x)\n    losses.append(loss.detach())\n",
        ),
        Example(
            before="for x in data:\n    ▸self.losses.append(a + b)◂\n",
            after="for x in data:\n    self.losses.append((a + b).detach())\n",
        ),
        Example(
            before="for x in data:\n    loss = step(x)\n    ▸total += loss / 2◂\n",
            after="for x in data:\n    loss = step(x)\n    total += (loss / 2).detach()\n",
        ),
        # it goes backward from what was collected
        Example.untouched("for x in data:\n    ▸losses.append(step(x))◂\nsum(losses).backward()\n"),
        # more than one value
        Example.untouched("for x in data:\n    ▸seen.append((x, step(x)))◂\n"),
        Example.untouched("for x in data:\n    ▸seen.extend(step(x))◂\n"),
        Example.untouched("for x in data:\n    ▸total = total + step(x)◂\n"),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find names whose last item, or whose sum, keeps its graph, and that grew at each look."""
        kept = [one for one in evidence.over_time.grown if one.holds_graph]
        if not kept:
            return None
        where = growth.sites(kept)
        text = f"{growth.named(kept)}, each with the graph that it was computed by."
        return self.finding(
            title=f"{growth.title_at(kept[0].name, where)} keeps the graph of every step",
            text=text + growth.consequence(evidence),
            bound=growth.bound(evidence),
            bound_basis=growth.basis(evidence),
            where=where,
            snippet="losses.append(loss.detach())  # or total += loss.detach()",
            data=LATE,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Detach what is appended, at each place where that can be done."""
        make_those_that_can_be(script, (partial(_detach, site=site) for site in finding.where))


def _detach(script: Script, site: Site) -> None:
    name, value = _added(script, site)
    if isinstance(value, ast.Tuple | ast.List | ast.Dict | ast.Starred):
        raise CannotRewrite("what is appended holds several values")
    for node in ast.walk(script.module(site.file)):
        if isinstance(node, ast.Attribute) and node.attr == "backward" and _reads(node, name):
            raise CannotRewrite(f"`backward` is called on {name}, in line {node.lineno}")
    binds = isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    script.wrap_call(script.site_of(site, value), "{}.detach()" if binds else "({}).detach()")


def _added(script: Script, site: Site) -> tuple[str, ast.expr]:
    """What is added at a place, by `name.append(value)` or `name += value`."""
    for node in ast.walk(script.module(site.file)):
        if getattr(node, "lineno", 0) != site.line:
            continue
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            return ast.unparse(node.target), node.value
        plain = isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords
        if plain and isinstance(node.func, ast.Attribute) and node.func.attr == "append":  # type: ignore[attr-defined]
            return ast.unparse(node.func.value), node.args[0]  # type: ignore[attr-defined]
    raise CannotRewrite("it is neither `append` nor `+=`")


def _reads(node: ast.expr, name: str) -> bool:
    return any(isinstance(one, ast.expr) and ast.unparse(one) == name for one in ast.walk(node))

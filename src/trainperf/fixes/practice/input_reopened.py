"""An input that is opened anew for each batch: `next(iter(loader))`."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.loops import assigned_in
from trainperf.source.statements import called

SNIPPET = """\
def endless(loader):
    while True:
        yield from loader

batches = endless(loader)  # once, before the loop
for step in range(steps):
    batch = next(batches)"""


class InputReopened(Fix):
    """Open the input once, and take one batch after another from it.

    ## Why it is slow
    `iter(loader)` starts the input from its beginning: worker processes are forked or spawned,
    shuffling draws a new order, buffers are filled again. `next` takes one batch of what they
    prepare, and the rest is thrown away with the workers.

    ## What changes
    The loop takes batches pass after pass over the data. Each sample then comes once in a pass;
    before, each batch was drawn from all of the data anew.

    ## When not to
    When each batch has to be drawn from all of the data: give the loader a
    `RandomSampler(replacement=True)` and open it once.
    """

    framework = "any"
    category = "input"
    equivalence = Equivalence.SEMANTICS
    usual = 2.0

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a loop that opens its input for each step, which takes a good part of it."""
        where = evidence.loop.opened_each
        if where is None:
            return None
        real, resident = evidence.times.real, evidence.times.resident
        bound = real / min(real, resident)
        if not worth(evidence, bound):
            return None
        return self.finding(
            title="The input is opened anew for each batch",
            text=f"{at(where)} opens it, takes one batch and closes it, in each step. With its "
            f"batch at hand a step takes {ms(resident)} in place of {ms(real)}: "
            f"{percent(1 - resident / real)} of it is opening, the first batch and closing.",
            bound=bound,
            bound_basis="a step with its batch at hand",
            where=(where,),
            advice="Open the input once, before the loop, and take the next batch in each step.",
            snippet=SNIPPET,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Take `next` of one endless iterator that is made ahead of the loop."""
        site = finding.where[0]
        opening = _opening(script, site)
        module = script.source(site.file).module
        loops = module.loops(opening)
        source = ast.unparse(opening.args[0])
        if not loops or not isinstance(opening.args[0], ast.Name | ast.Attribute):
            raise CannotRewrite("no loop of the same function opens it by its name")
        if source in assigned_in(loops[0]):
            raise CannotRewrite(f"{source} may be another one in each turn")
        batches = script.free_name(site.file, "batches", "batches_of_training")
        endless = script.free_name(site.file, "endless", "pass_after_pass")
        script.replace_call(script.site_of(site, opening), batches)
        script.insert_before(_head(site, loops[0]), f"{batches} = {endless}({source})")
        script.insert_function(
            site.file, f"def {endless}(loader):\n    while True:\n        yield from loader\n"
        )


def _opening(script: Script, site: Site) -> ast.Call:
    """The `iter(…)` in a call of `next`."""
    taking = script.call(site)
    first = taking.args[0] if called(taking) == "next" and taking.args else None
    if not (isinstance(first, ast.Call) and called(first) == "iter" and len(first.args) == 1):
        raise CannotRewrite("it is not opened by `next(iter(…))`")
    return first


def _head(site: Site, loop: ast.stmt) -> Site:
    return Site(site.file, loop.lineno, site.function)

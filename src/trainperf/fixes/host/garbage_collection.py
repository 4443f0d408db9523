"""Garbage collections that stop the training to go through all its objects."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.words import if_measured, ms
from trainperf.model import Evidence, Finding, Site
from trainperf.rewrite import Script

SNIPPET = """\
import gc

gc.collect()
gc.freeze()  # right before the loop: what is there by now is not gone through again
for epoch in range(epochs):
    ..."""


class GarbageCollection(Fix):
    """Keep garbage collections from going through data that stays: `gc.freeze()`.

    ## Why it is slow
    After so many new containers Python goes through all objects that may be part of a cycle, with
    all threads stopped. Samples kept as millions of dictionaries, lists and tuples are gone
    through again and again, though none of them is ever garbage.

    ## What changes
    `gc.freeze()` ahead of the loop sets aside what is there by then; what is made later is
    collected as before. Numbers and order stay the same.

    ## When not to
    When cycles that are there by then become garbage later and hold much memory: it is kept.
    """

    category = "host"
    framework = "any"
    counted = True
    usual = 1.2

    def look(self, evidence: Evidence) -> Cause | None:
        """Find collections that take a part of a step, timed one by one."""
        seen, where = evidence.collections, evidence.loop.where
        if seen is None or not seen.seconds:
            return None
        often = "" if seen.full < 0.5 else f", {seen.full:.1f} of all objects in each step"
        of = if_measured(lambda: f" of {ms(evidence.times.real)}")
        return Cause(
            title="Garbage collections stop the training",
            text=f"Python's garbage collections take {ms(seen.seconds)} of each step{of}{often}.",
            saves=Saving("no collection in a step", seen.seconds, of="all"),
            where=() if where is None else (where,),
            advice="Set aside what was loaded before the loop begins.",
            snippet=SNIPPET,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Collect and freeze ahead of the outermost loop around the steps."""
        site = finding.where[0]
        around = script.around(site)
        loops = [node for node in around if isinstance(node, ast.For | ast.While | ast.AsyncFor)]
        statement = next(iter([*loops, *around[-1:]]), None)
        if statement is None:
            raise CannotRewrite("no statement of a file is the loop's")
        head = Site(site.file, statement.lineno, site.function)
        gc = script.module_name(site.file, "gc", site)
        script.insert_before(head, f"{gc}.collect()")
        script.insert_before(head, f"{gc}.freeze()")

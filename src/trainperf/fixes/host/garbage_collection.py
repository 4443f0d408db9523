"""Garbage collections that stop the training to go through all its objects."""

from __future__ import annotations

import ast
import math
import textwrap

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.step import waits_for_input
from trainperf.fixes.common.words import if_measured, ms
from trainperf.model import Epoch, Equivalence, Evidence, Finding, Site, Slices, is_taken
from trainperf.rewrite import Script
from trainperf.source.statements import Function

BY_PYTHON = 10_000
"""More objects than Python sets aside by itself when it starts: 3.12 some hundreds."""
EACH = 0.9
"""Collections of all objects in a step from which the script may ask for them itself."""
BY_HAND = " Where the script calls `gc.collect()` in each step, leave that out."

LONGEST_SLICE_S = 8.0
"""For longer ones nobody waits, eight times and more: then a slice holds one by chance."""


class GarbageCollection(Fix):
    """Keep garbage collections from going through data that stays: `gc.freeze()`.

    Why slow: After so many new containers Python goes through all objects that may be part of a
    cycle, with all threads stopped. Samples kept as millions of dictionaries, lists and tuples are
    gone through again and again, though none of them is ever garbage.
    Changes: `gc.freeze()` ahead of the loop sets aside what is there by then; what is made later
    is collected as before. Numbers and order stay the same.
    When not: When cycles that are there by then become garbage later and hold much memory: it is
    kept.
    """

    equivalence = Equivalence.EXACT
    category = "host"
    counted = True
    usual = 1.2

    def look(self, evidence: Evidence) -> Cause | None:
        """Find collections that take a part of a step, timed one by one."""
        seen, where = evidence.collections, evidence.loop.where
        if seen is None or not seen.seconds:
            return None
        # what a slice of a trial must hold for a collection of all objects to come in it
        slices: Slices = "steps"
        if 0 < seen.full < 1 and is_taken(evidence.times.real_):
            steps = math.ceil(1 / seen.full)
            seconds = steps * evidence.times.real
            slices = Epoch(steps, seconds, written=True) if seconds <= LONGEST_SLICE_S else "steps"
        often = "" if seen.full < 0.5 else f", {seen.full:.1f} of all objects in each step"
        of = if_measured(lambda: f" of {ms(evidence.times.real)}")
        return Cause(
            title="Garbage collections stop the training",
            text=f"Python's garbage collections take {ms(seen.seconds)} of each step{of}{often}.",
            saves=Saving("no collection in a step", seen.seconds, of="all"),
            where=() if where is None else (where,),
            advice="Set aside what was loaded before the loop begins."
            + (BY_HAND if seen.full >= EACH else ""),
            snippet="import gc\n\ngc.collect()\ngc.freeze()  # right before the loop",
            category="input" if waits_for_input(evidence) else None,
            slices=slices,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Collect and freeze ahead of the outermost loop around the steps."""
        site = finding.where[0]
        around = script.around(site)
        loops = [node for node in around if isinstance(node, ast.For | ast.While | ast.AsyncFor)]
        statement = next(iter(loops), around[-1])
        head = Site(site.file, statement.lineno, site.function)
        gc = script.module_name(site.file, "gc", site)
        lines = f"{gc}.collect()\n{gc}.freeze()"
        if any(isinstance(node, Function) for node in around):  # which may be called again
            lines = f"if {gc}.get_freeze_count() < {BY_PYTHON}:\n{textwrap.indent(lines, '    ')}"
        script.insert_before(head, lines)

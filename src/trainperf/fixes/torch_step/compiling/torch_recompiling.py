"""Code that the script compiles again and again."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved, step_can_matter
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.torch_step._step import UNTRIED
from trainperf.fixes.torch_step.compiling.torch_compile import FUSING, fusing
from trainperf.model import Equivalence, Evidence, Finding, Padding, Site
from trainperf.model.torch.compiling import Recompiling
from trainperf.rewrite import Script

WAY, ANY_SHAPE, FEW_LENGTHS = "code", "for all shapes", "for a few lengths"
"""Key of a finding's data, and its two values."""
RECURRING = 3
"""Compilations after the first step from which they recur: by itself PyTorch compiles a second
time for a shape that changes, and a third for the smaller last batch or an evaluation."""

SHAPES = re.compile(r"(size|stride) mismatch|\.size\(|\.shape\b|\bsize\(\)|dynamo_dynamic_indices")
"""Stands in a guard that failed for the shape of a tensor."""
SEEN = "the time of the compilations seen; those that end by themselves included"

_MULTIPLE = "pad_to_multiple_of"
_PADS = ("DataCollatorWithPadding", "DataCollatorForLanguageModeling", "DataCollatorForSeq2Seq")
"""Collators that can pad beyond the longest sequence of a batch."""
_LENGTHS = 4
"""Up to the usual length of a batch there are no more: PyTorch compiles for eight shapes."""
_SMALLEST, _LARGEST = 8, 128


class StopRecompiling(Fix):
    """Keep compiled code from being compiled again.

    ## Why it is slow
    `torch.compile` compiles for what it sees: shapes, and values of Python. Guards look at each
    call whether that still holds; where one fails the function is compiled again, which takes
    as long as hundreds of steps. After eight times PyTorch gives up (`recompile_limit`): what is
    new then runs without compiled code.

    ## What changes
    `dynamic=True` in the call that compiles makes one code for all shapes. Where a collator of
    Transformers pads, and the model does not read padding, `pad_to_multiple_of` is tried as well:
    a few lengths, each compiled once. The numbers are the same but for rounding. For a value of
    Python's that changes no edit is written: a number that the model counts becomes a buffer, or
    leaves the compiled part.

    ## When not to
    - A few compilations at the start, one for each of a few lengths, end by themselves; code
      for one shape may be faster than code for all.
    - Code that must know a shape (`mode="max-autotune"`, CUDA graphs): pad to a few lengths.
    """

    category = "host"
    usual = 1.5
    compiles = True
    counted = True
    equivalence = Equivalence.NUMERICS
    framework = "torch"
    in_libraries = {"transformers": "`DataCollator…(pad_to_multiple_of=N)`"}

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find compilations that go on in the steps that were timed, or that PyTorch ended."""
        seen = evidence.torch.compiling.recompiling
        if seen is None or seen.count < RECURRING:
            return None
        saved, basis = seen.lasting_s, SEEN
        if seen.limit:
            saved, basis = saved + fusing(evidence).saved, FUSING
        bound = bound_if_saved(evidence, saved)
        return self._finding(evidence, seen, bound, basis) if worth(evidence, bound) else None

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try one code for all shapes wherever these were what failed, whenever that was."""
        seen = evidence.torch.compiling.recompiling
        if seen is None or seen.count < RECURRING or not step_can_matter(evidence):
            return None
        finding = self._finding(evidence, seen, None, UNTRIED)
        return finding if finding.rewritable else None

    def lasts(self, finding: Finding) -> bool:
        """Only where PyTorch has given up: what is compiled again may be all there is."""
        return bool(finding.data.get("limit"))

    def _finding(
        self, evidence: Evidence, seen: Recompiling, bound: float | None, basis: str
    ) -> Finding:
        place = f" ({at(seen.where)})" if seen.where is not None else ""
        text = (
            f"{seen.count} compilations in {seen.steps} steps after the first took "
            f"{ms(seen.seconds)}. The guard that failed last: {seen.reason}."
        )
        if seen.lasting_s:
            share = seen.lasting_s / evidence.times.real
            text += f" They go on: {ms(seen.lasting_s)} of each step on average ({percent(share)})."
        if seen.limit:
            text += (
                " PyTorch compiles it no more (`recompile_limit`): what is new runs without "
                "compiled code."
            )
        shapes = SHAPES.search(seen.reason) is not None
        where = _for_fixed_shapes(evidence) if shapes else ()
        guard = (seen.where,) if seen.where is not None else ()
        padded = _few_lengths(evidence) if shapes else {}
        ways = [{WAY: ANY_SHAPE}] * bool(where) + [{WAY: FEW_LENGTHS}] * bool(padded)
        advice, snippet = _advice(shapes, bool(where))
        return self.finding(
            title=f"`{seen.function}`{place} is compiled again and again",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=where or guard,
            advice=advice,
            snippet=snippet,
            data={"limit": seen.limit, **padded, **(ways[0] if ways else {}), "variants": ways},
            rewritable=bool(ways),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have each call of the user's compile for all shapes, or batches come in few lengths."""
        if finding.data.get(WAY) == FEW_LENGTHS:
            place, collator = Site(**finding.data["place"]), finding.data["collator"]
            _pad_to_multiples(script, place, collator, finding.data["multiple"])
            return
        for site in finding.where:
            if script.expression(site).endswith(")"):
                script.set_keyword(site, "dynamic", "True")
            else:
                torch = script.module_name(site.file, "torch", site)
                script.set_decorator_keyword(site, f"{torch}.compile", "dynamic", "True")


def _few_lengths(evidence: Evidence) -> dict[str, Any]:
    """What is needed to have a collator of Transformers pad to few lengths; nothing without one."""
    padding, multiple = evidence.padding, multiple_of(evidence.padding)
    places = [one.where for one in evidence.torch.loaders if one.role == "training"]
    place = next((one for one in places if one is not None), evidence.loop.where)
    if padding is None or multiple is None or place is None:
        return {}
    return {"collator": padding.collator, "multiple": multiple, "place": asdict(place)}


def _for_fixed_shapes(evidence: Evidence) -> tuple[Site, ...]:
    """The calls of the user's that do not compile for all shapes."""
    calls = evidence.torch.compiling.calls
    return tuple(one.where for one in calls if one.where.exact and one.dynamic is not True)


def _advice(shapes: bool, editable: bool) -> tuple[str, str]:
    """What to do, in words and code, by the guard that failed."""
    if shapes and editable:
        return "Compile once for all shapes.", "model = torch.compile(model, dynamic=True)"
    if shapes:
        return (
            "Make batches of a few lengths: pad each to the next of them.",
            "length = 64 * math.ceil(length / 64)",
        )
    return (
        "Keep what changes out of the compiled code: numbers go into tensors, texts stay outside.",
        'self.register_buffer("count", torch.zeros((), dtype=torch.long))  # self.count += 1',
    )


def multiple_of(padding: Padding | None) -> int | None:
    """Return the power of two that batches are to be padded to multiples of.

    None where no collator of Transformers pads them to their longest, or the model reads padding.
    """
    if padding is None or not padding.masked or padding.collator not in _PADS:
        return None
    found = _SMALLEST
    while found < min(padding.padded_length / _LENGTHS, _LARGEST):
        found *= 2
    return found


def _pad_to_multiples(script: Script, site: Site, collator: str, multiple: int) -> None:
    """Give the only collator that is built in the file of `site` the multiple to pad to.

    Raises `CannotRewrite` where it is not there, or pads to another one.
    """
    module = script.linked(site.file)
    calls = list(module.calls(f"transformers.{collator}"))
    if len(calls) != 1:
        raise CannotRewrite(f"the file builds {collator} in {len(calls)} places, not in one")
    there = script.site_of(site, calls[0])
    if _MULTIPLE in script.call_keywords(there):
        raise CannotRewrite(f"{collator} is told {_MULTIPLE} already")
    script.set_keyword(there, _MULTIPLE, str(multiple))

"""Models that could be compiled, and compiled code that is compiled too much or too little."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import asdict, dataclass

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import UNTRIED, Cause, Saving
from trainperf.fixes.common.step import step_seconds
from trainperf.fixes.common.words import at, ms, percent
from trainperf.fixes.torch_step._source import OF_TORCH, inherits_forward, model_target
from trainperf.fixes.torch_step._step import compute_seconds
from trainperf.model import Equivalence, Evidence, Finding, Variant, is_taken
from trainperf.rewrite import Script

MOSTLY = 0.70
"""Share of the operators' time in those that compiling can put together, from which a CPU is
worth compiling for. Below, compiled code is often slower there: a small GPT,
with half of its time in products, ran at 0.90 of its speed."""

GAINS = 0.20
"""Share of forward and backward on a GPU that operators to be put together and gaps between
kernels must have: 1.25 times as fast at most. PyTorch's own figures for compiling are 1.21 in
float32 and 1.51 under AMP, the mean of 163 models on an A100 (announcement of PyTorch 2.0)."""

MOST_SHAPES = 3
"""Input shapes up to which compiling one by one, or once for all, is soon over."""

FUSING = "no time left in operators that compiling can put together, and between operators"

COMPILED, WHOLE, BY_BLOCK, IN_GRAPHS = "compiled", "the model", "each block", "in CUDA graphs"
"""A key of a finding's data, with its values."""

MOST_NAMED = 4

RECURRING = 3
"""Compilations after the first step from which they recur: by itself PyTorch compiles a second
time for a shape that changes, and a third for the smaller last batch or an evaluation."""

SHAPES = re.compile(r"(size|stride) mismatch|\.size\(|\.shape\b|\bsize\(\)|dynamo_dynamic_indices")
"""Stands in a guard that failed for the shape of a tensor."""


@dataclass(frozen=True)
class Fusing:
    """Seconds of a step: `compute` in forward and backward, of which `saved` could go at most.

    `gaps` pass between the kernels of a GPU, 0 on a CPU. `share` of the operators' time is in
    those that can be put together.
    """

    compute: float
    gaps: float
    saved: float
    share: float


def fusing(evidence: Evidence) -> Fusing:
    """What goes where all that compiling can put together takes no time at all.

    Products, convolutions, attention and look-ups are left as they are, and compiling itself is
    no part of it. Raises `NotMeasured` without a trace, or the time of a step.
    """
    trace, calls = evidence.torch.trace, evidence.torch.calls
    recompiling = evidence.torch.compiling.recompiling
    if trace is None or trace.fusable_s is None:
        raise NotMeasured("what compiling saves takes a trace to say")
    passes = max(1.0, calls.backwards) if calls is not None else 1.0
    taken_apart = is_taken(evidence.torch.split_)
    compute = compute_seconds(evidence) if taken_apart else step_seconds(evidence)
    compute = max(0.0, compute - (recompiling.lasting_s if recompiling else 0.0))
    share = trace.fusable_s / max(trace.operators_s, 1e-9)
    if evidence.device.kind == "GPU":
        # The tracer holds up what starts the kernels: gaps are no more than what forward and
        # backward take beyond them in the loop.
        gaps = min(trace.gap_s or 0.0, max(0.0, compute / passes - trace.busy_s))
        saved = min(compute, passes * (gaps + trace.fusable_s))
        return Fusing(compute, passes * gaps, saved, share)
    left = trace.operators_s - trace.fusable_s
    if trace.seconds:  # the tracer holds up each operator
        left *= min(1.0, compute / passes / trace.seconds)
    return Fusing(compute, 0.0, max(0.0, compute - passes * left), share)


class TorchCompile(Fix):
    """Compile the model with `torch.compile`, so that small operations are fused.

    Why slow: Without it Python starts each operation by itself, which takes as long as a small one
    runs. Each reads its input from memory and writes its result back: a GPU may do little else.
    Changes: The model is compiled in place (`model.compile()`) at its first call, which takes
    seconds to minutes once; rounding differs. One of PyTorch's own classes, such as `Sequential`,
    is wrapped (`torch.compile(model)`): the names in its `state_dict` then begin with
    `_orig_mod.`. Of at least four blocks of one class, compiling each is tried as well: the code
    of one serves for all. Where a GPU stands idle between kernels, so is `mode="reduce-overhead"`:
    CUDA graphs launch many at once. The best way is the one with which the whole training ends
    soonest.
    When not:
    - Inputs of many shapes are compiled again and again; short runs do not earn it back.
    - Large convolutions or matrix products on a CPU: compiled code is often slower there.
    - Losses that need gradients of gradients (`create_graph=True`): they raise.
    - On a CPU it needs a C++ compiler.
    """

    usual = 1.0
    compiles = True
    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a model that is not compiled and can be, without doing so again and again."""
        torch, on_gpu = evidence.torch, evidence.device.kind == "GPU"
        model = torch.model
        if model.compiled or model.shapes > MOST_SHAPES:
            return None
        if torch.calls is not None and torch.calls.retains_graph:  # gradients of gradients
            return None
        could = None
        with suppress(NotMeasured):
            could = fusing(evidence)
        # Where a trace leaves little to fuse on a CPU, compiled products lose more.
        little = could is not None and could.saved < GAINS * could.compute
        if not on_gpu and (little or not torch.flags.get("cpp_compiler")):
            return None
        name, wrapped = model.name or "model", model.cls in OF_TORCH
        blocks = [asdict(several) for several in model.blocks]
        idle = could is not None and could.gaps > GAINS * could.compute  # waits for launches
        ways = [WHOLE, *[BY_BLOCK] * bool(blocks), *[IN_GRAPHS] * idle]
        said = _traced(evidence, could) if could else ""
        return Cause(
            title=f"{model.cls} is not compiled",
            text=f"Python starts each operation of {model.cls} by itself.{said}",
            saves=Saving(FUSING, lambda: fusing(evidence).saved),
            where=(model.where,) if model.where else (),
            advice="Compile the model right after it is built; its first step then takes seconds "
            f"to minutes.{'' if on_gpu else ' It needs a C++ compiler.'}",
            snippet=f"{name} = torch.compile({name})" if wrapped else f"{name}.compile()",
            sure=_promises(evidence, could),
            data={"cls": model.cls, **({"blocks": blocks} if blocks else {})},
            variants=tuple(Variant({COMPILED: way}) for way in ways),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Compile the model on the line after the one that builds it."""
        site = finding.where[0]
        name, cls = model_target(script, site), finding.data["cls"]
        if finding.data.get(COMPILED) == BY_BLOCK:
            block = script.free_name(site.file, "block", "each_block", "compiled_block")
            loops = (
                f"for {block} in {name}{blocks['path']}:\n    {block}.compile()"
                for blocks in finding.data["blocks"]
            )
            script.insert_after(site, "\n".join(loops))
            return
        text, mode = script.source(site.file).text, ""
        if finding.data.get(COMPILED) == IN_GRAPHS:
            mode = 'mode="reduce-overhead"'
        if not (cls in OF_TORCH or inherits_forward(text, cls)):
            script.insert_after(site, f"{name}.compile({mode})")
            return
        if "state_dict" in text or "torch.save" in text:
            raise CannotRewrite(f"wrapping {cls} would change the names in its checkpoints")
        torch = script.module_name(site.file, "torch", site)
        arguments = ", ".join(filter(None, (name, mode)))
        script.insert_after(site, f"{name} = {torch}.compile({arguments})")


def _promises(evidence: Evidence, could: Fusing | None) -> bool:
    """Whether compiling is likely to pay, by a trace."""
    if could is None:
        return False
    if evidence.device.kind == "GPU":
        return could.saved >= GAINS * could.compute
    return could.share >= MOSTLY


def _traced(evidence: Evidence, could: Fusing) -> str:
    gaps = could.gaps and f", and {percent(could.gaps / could.compute)} of it between kernels"
    return (
        f" Forward and backward take {ms(could.compute)} of the {ms(evidence.times.real)} step, "
        f"{percent(could.share)} of their operators' time in others than products, convolutions "
        f"and look-ups{gaps or ''}: compiling can put these together."
    )


class TorchGraphBreaks(Fix):
    """Take what breaks the graph out of the compiled code.

    Why slow: `torch.compile` cannot follow a number that Python asks of a tensor (`.item()`, `if
    x.sum() > 0`), `print`, or a library that it does not know. The graph ends there, Python runs,
    and a new graph begins. In a loop, the whole function runs without compiled code.
    Changes: `torch.where` decides in place of `if`; what is only looked at is returned, and read
    outside. With `fullgraph=True` the call that compiles raises at the first line that breaks a
    graph.
    When not: A break between two large graphs costs little, as does one in code that runs seldom.
    """

    without_edit = "what the line is for decides what it becomes"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find breaks in a step where much is left that compiling could have put together."""
        breaks = evidence.torch.compiling.breaks
        if not breaks:
            return None
        lines = [
            f"{at(found.where)}: {found.reason.rstrip('.')}"
            f"{'; a function around it runs without compiled code' if found.skips else ''}."
            for found in breaks[:MOST_NAMED]
        ]
        if len(breaks) > MOST_NAMED:
            lines.append(f"There are {len(breaks) - MOST_NAMED} more.")
        return Cause(
            title=f"Compiled graphs end at {len(breaks)} line{'s' if len(breaks) > 1 else ''} of "
            f"the script ({at(breaks[0].where)})",
            text=f"{' '.join(lines)} Between two graphs Python runs, and nothing is put together.",
            saves=Saving(FUSING, lambda: fusing(evidence).saved),
            where=tuple(found.where for found in breaks[:MOST_NAMED]),
            advice="Decide by tensors (`torch.where`) in the compiled code, and read or print "
            "numbers outside of it.",
            snippet="""\
x = torch.where(x.mean() > limit, x / 2, x)  # not: if x.mean().item() > limit: x = x / 2
losses.append(loss.detach())  # read and printed outside the compiled code, now and then""",
        )


class TorchRecompiling(Fix):
    """Keep compiled code from being compiled again.

    Why slow: `torch.compile` compiles for what it sees: shapes, and values of Python. Guards look
    at each call whether that still holds; where one fails the function is compiled again, which
    takes as long as hundreds of steps. After eight times PyTorch gives up (`recompile_limit`):
    what is new then runs without compiled code.
    Changes: `dynamic=True` in the call that compiles makes one code for all shapes. For a value of
    Python's that changes no edit is written: a number that the model counts becomes a buffer, or
    leaves the compiled part.
    When not:
    - A few compilations at the start, one for each of a few lengths, end by themselves; code for
      one shape may be faster than code for all.
    - Code that must know a shape (`mode="max-autotune"`, CUDA graphs): pad to a few lengths.
    """

    category = "host"
    usual = 1.5
    compiles = True
    counted = True
    equivalence = Equivalence.NUMERICS
    in_libraries = {"transformers": "`DataCollator…(pad_to_multiple_of=N)`"}

    def look(self, evidence: Evidence) -> Cause | None:
        """Find compilations that recur, in the steps that were timed or before them.

        What they cost is known where they go on, or where PyTorch has ended them.
        """
        compiling = evidence.torch.compiling
        seen = compiling.recompiling
        if seen is None or seen.count < RECURRING:
            return None
        lasting, limit = seen.lasting_s, seen.limit
        text = (
            f"{seen.count} compilations in {seen.steps} steps after the first took "
            f"{ms(seen.seconds)}. The guard that failed last: {seen.reason}."
        )
        if lasting:
            text += f" They go on: {ms(lasting)} of each step on average."
        if limit:
            text += " PyTorch has given up (`recompile_limit`): what is new runs uncompiled."
        saves = Saving(UNTRIED)
        if limit:
            saves = Saving(FUSING, lambda: lasting + fusing(evidence).saved)
        elif lasting:
            basis = "the time of the compilations seen; those that end by themselves included"
            saves = Saving(basis, lasting)
        shapes = SHAPES.search(seen.reason) is not None
        where = tuple(
            call.where
            for call in compiling.calls
            if shapes and call.where.exact and call.dynamic is not True
        )
        advice, snippet = ADVICE["for all" if where else "few" if shapes else "values"]
        place = f" ({at(seen.where)})" if seen.where is not None else ""
        return Cause(
            title=f"`{seen.function}`{place} is compiled again and again",
            text=text,
            saves=saves,
            where=where or ((seen.where,) if seen.where is not None else ()),
            advice=advice,
            snippet=snippet,
            data={"limit": limit},
            rewritable=bool(where),
        )

    def lasts(self, finding: Finding) -> bool:
        """Only where PyTorch has given up: what is compiled again may be all there is."""
        return bool(finding.data.get("limit"))

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have each call of the user's compile for all shapes."""
        for site in finding.where:
            if script.expression(site).endswith(")"):
                script.set_keyword(site, "dynamic", "True")
            else:
                torch = script.module_name(site.file, "torch", site)
                script.set_decorator_keyword(site, f"{torch}.compile", "dynamic", "True")


ADVICE = {
    "for all": ("Compile once for all shapes.", "model = torch.compile(model, dynamic=True)"),
    "few": (
        "Make batches of a few lengths: pad each to the next of them.",
        "length = 64 * math.ceil(length / 64)",
    ),
    "values": (
        "Keep what changes out of the compiled code: numbers go into tensors.",
        'self.register_buffer("count", torch.zeros((), dtype=torch.long))  # self.count += 1',
    ),
}
"""What to do, in words and code, by the guard that failed."""

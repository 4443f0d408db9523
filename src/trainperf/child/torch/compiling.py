"""TorchDynamo's own compilations, as they happen in the script: calls, times, guards, breaks.

Nothing is compiled or run for it, and a script that does not compile imports none of the modules
that are hooked here.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from ..process import frames
from ..process.patching import before

COMPILES = ("compile", "fn")
"""Functions of PyTorch that the user called where he asked to compile something: `torch.compile`,
`Module.compile`, and what `torch.compile(dynamic=…)` returns to decorate a function with."""
LIMIT = re.compile(r"(recompile|cache_size)_limit|(recompile|cache) limit|cache size limit")
"""Stands in the reason of a failure where PyTorch compiles a function no more."""
SKIPS = re.compile(r"[Ss]kipping the (frame|function|rest of the function)|frame skipped")
"""Stands in the reason of a graph break after which a function runs without compiled code."""
IN_STACK = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
RESUMES = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")
"""The name of the rest of a function behind a graph break."""
LONGEST_REASON = 200


def watch_calls(loops: Any, module: Any) -> None:
    """Note where the user compiles something; `module` is `torch._dynamo.eval_frame`."""

    process = loops.process

    def note(context: Any, function: Any) -> None:
        loops.compiles = True
        if loops.lines is not None:
            loops.lines.compiled()
        frame, called = frames.users_frame()
        if called in COMPILES:
            dynamic = getattr(context, "_dynamic", None)
            process.record.write("torch_compile_call", where=frames.site(frame), dynamic=dynamic)

    before(process, module.OptimizeContext, "__call__", "where something is compiled", note)


def watch_metrics(loops: Any, module: Any) -> None:
    """Note each compilation when it has ended; `module` is `torch._dynamo.utils`."""

    process = loops.process

    def note(start_ns: int, end_ns: int, metrics: dict[str, Any], *raised: Any) -> None:
        seconds = (end_ns - start_ns) / 1e9
        reason, name = str(metrics.get("recompile_reason") or ""), metrics.get("co_name") or ""
        own = metrics.get("co_filename") or "", metrics.get("co_firstlineno") or 0, name
        # The innermost line of the user's in the stack of the guard, or else the function's head.
        stack = (*reversed(IN_STACK.findall(reason)), own)
        users = (_place(*frame) for frame in stack if frames.is_users(frame[0]))
        process.record.write(
            "torch_compilation",
            s=process.clock() - seconds,
            d=seconds,
            # The guard that failed, without the number of the code before and its source behind it.
            reason=re.sub(r"^\d+/\d+: ", "", reason.partition("\n")[0])
            .partition("  # ")[0]
            .strip()[:LONGEST_REASON],
            where=next(users, None),
            function=RESUMES.sub(r"\1", name),
            limit=bool(LIMIT.search(str(metrics.get("fail_reason") or raised[-1:]))),
        )

    owner, name = module, "record_compilation_metrics"
    if hasattr(module, "_METRICS_CONTEXT"):  # PyTorch 2.6 has it for all threads, made by now
        owner, name = module._METRICS_CONTEXT, "_on_exit"
    before(process, owner, name, "what was compiled", note)


def _place(file: str, line: int | str, function: str) -> dict[str, Any]:
    name = RESUMES.sub(r"\1", function)
    return {"file": os.path.abspath(file), "line": int(line), "function": name}


def watch_breaks(loops: Any, module: Any) -> None:
    """Note graph breaks as they are logged; `module` is `torch._dynamo.symbolic_convert`."""
    import torch

    def note(*args: Any, **kwargs: Any) -> None:
        given = [*args, *kwargs.values()]
        told = [str(one) for one in given if isinstance(one, (str, BaseException))]
        error = next((one for one in given if isinstance(one, BaseException)), sys.exception())
        if error is None or not torch.is_grad_enabled():
            return
        stack = reversed(getattr(error, "real_stack", None) or ())
        inner = next((one for one in stack if frames.is_users(one.filename)), None)
        if inner is not None:
            loops.process.record.write(
                "torch_graph_break",
                reason=str(error).strip().partition("\n")[0][:LONGEST_REASON],
                where=_place(inner.filename, inner.lineno, inner.name),
                skips=any(SKIPS.search(one) for one in told),
            )

    owner = module.InstructionTranslatorBase
    if not hasattr(owner, "log_graph_break"):  # PyTorch 2.6 logs as it handles what ends the graph
        owner = module
    before(loops.process, owner, "log_graph_break", "where a graph breaks", note)

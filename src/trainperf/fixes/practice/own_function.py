"""A function of the user's own that takes the step, by what passes on its lines."""

from __future__ import annotations

import re
from typing import Literal

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.step import gpu_may_be_full, waits_for_input
from trainperf.fixes.common.words import at, ms, percent
from trainperf.model import Equivalence, Evidence, FunctionLines, Line, OwnCode
from trainperf.model.lines import MANY
from trainperf.model.training import Outside

MOST = 0.25
"""Share of a step from which a function of the user's own is what it is lost to."""

LEAST = 0.10
"""Share from which work is worth a word."""

BUSY = 0.85
"""A GPU that runs kernels so much of the time is what the step waits for, not Python."""

NOISY = 0.25
"""Noise of a step's times from which a share is not put into seconds."""

MANY_TENSORS = 10
"""Tensors of weights from which a number of calls that is a multiple of theirs is seldom chance."""

OF_WEIGHTS = re.compile(r"param|weight|grad|state_dict|(\b|_)ema(\b|_)|momentum", re.IGNORECASE)
"""What code that goes through the weights has in its names."""

CARRIED = re.compile(
    r"^(?![^=]*\w\()[^=]*?(?<![\w.])([\w.]+)(?![\w.])[^=]*=[^=].*\(.*(?<![\w.])\1\b"
)
"""A line that is given what it made in the turn before: `y, state = self.cell(x[:, t], state)`."""

MOST_TOLD = 3
Kind = Literal["weights", "cell", "small calls", "loop", "call"]

BASIS = "all of it, by samples of the stack"


class OwnFunction(Fix):
    """Replace the function of your own that takes the step.

    Why slow: Python runs one operation at a time. A loop over hundreds of tensors, over the steps
    of a sequence or over the elements of a batch costs microseconds for each turn, however small
    its tensors are; work on the host keeps the device waiting.
    Changes: The library's own call does the same in one go: for all tensors, the whole sequence,
    the whole batch. Sums may be rounded in another order.
    When not: When what it computes is not what the library's call computes: compare the losses of
    a few steps first. Code that is run once in a while costs nothing on the whole.
    """

    concerns = "own work"
    equivalence = Equivalence.NUMERICS
    without_edit = "another algorithm, or a library's own function, has to be chosen"
    counted = True
    try_before = ("keras_callback_per_batch", "torch_step_logging", "torch_workers")

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the function whose lines take most of a step beside operators' own work."""
        if evidence.device.kind == "GPU" and gpu_may_be_full(evidence, BUSY):
            return None
        lines, waits = evidence.lines, waits_for_input(evidence)
        functions = lines.functions(evidence.loop.where)
        if not functions or (waits and evidence.loop.kind != "call"):
            return None  # the fixes of the input tell of it
        function, line = functions[0], functions[0].lines[0]
        if line.of_training or (line.where.file, line.where.line) in _saving(evidence):
            return None  # fixes of these tell of it
        share = function.own_s / lines.seconds
        surely = share - lines.half_width(share)
        if surely < LEAST:
            return None
        bound = evidence.bound_if_host_saves(share)
        if waits:
            bound = min(bound, evidence.times.real / evidence.times.resident)
        name = f"`{line.text if function.alone else line.where.function}`"
        loop = next(filter(None, (_loop(line, evidence) for line in function.lines)), "")
        kind, does, advice = _does(function, _loop(line, evidence), _tensors(evidence))
        torch = evidence.framework.name == "torch"
        small = _SMALL_CALLS if torch else _SMALL_CALLS.replace("torch.", "tf.")
        where = tuple(line.where for line in function.lines[:MOST_TOLD])
        return Cause(
            title=f"{name} {does}",
            text=_of_lines(evidence, function, name, loop),
            saves=Saving(BASIS, ratio=bound),
            where=where,
            advice=advice,
            snippet={"small calls": small, "weights": _WEIGHTS}.get(kind, ""),
            category="input" if waits else None,
            own=OwnCode(
                name,
                kind,
                does,
                function.seconds / lines.seconds,
                surely >= MOST,
                tuple((0.0 if rank else share, not function.alone) for rank in range(len(where))),
            ),
        )


def _saving(evidence: Evidence) -> set[tuple[str, int]]:
    """Where checkpoints were seen to be written."""
    turn = evidence.outside_
    places = turn.on("saving")[1] if isinstance(turn, Outside) else ()
    return {(place.file, place.line) for place in places}


def _loop(line: Line, evidence: Evidence) -> str:
    """The loop within a step that a line stands in, in words; "" where that is the step's own."""
    own, loop = evidence.loop.where, line.loop
    if loop is None or (own and own.file == loop.file and loop.line <= own.line <= line.where.line):
        return ""
    return f"`{line.loop_text}` ({at(loop)})" if line.loop_text else f"the loop at {at(loop)}"


def _tensors(evidence: Evidence) -> int:
    """How many tensors of weights PyTorch's optimizers update; 0 where that is not known."""
    torch = evidence.torch_
    return 0 if torch is None else sum(optimizer.tensors for optimizer in torch.optimizers)


def _over_weights(function: FunctionLines, tensors: int) -> bool:
    """Whether its calls of operators are the same few for each tensor of the weights it names."""
    times = function.calls / max(1, tensors)
    whole = tensors >= MANY_TENSORS and times >= 1 and abs(times - round(times)) * tensors < 1
    named = (f"{line.where.function} {line.loop_text} {line.text}" for line in function.lines)
    return whole and any(map(OF_WEIGHTS.search, named))


def _does(function: FunctionLines, loop: str, tensors: int) -> tuple[Kind, str, str]:
    """The kind of work that most of it is, what it does, and what an expert would write instead.

    `loop` is that of its first line; the weights have so many `tensors`.
    """
    line = function.lines[0]
    if function.small_s > 0.2 * function.own_s and _over_weights(function, tensors):
        times = round(function.calls / tensors)
        plural = "one call" if times == 1 else f"{times} calls"
        does = f"goes through {tensors:,} tensors of weights one by one, {plural} for each"
        return (
            "weights",
            does,
            (
                "Compute it for lists of tensors: one call of `torch._foreach_…` in place of one "
                "for each tensor. What is only logged, compute every 50 steps."
            ),
        )
    if function.small_s > 0.2 * function.own_s and function.calls >= MANY:
        does = f"makes {function.calls:,.0f} calls of small operators in each step"
        turn = re.match(r"for (\w+)", line.loop_text)
        if turn and CARRIED.search(line.text) and re.search(rf"\(.*\b{turn[1]}\b", line.text):
            advice = "Give the whole sequence to the library's layer (`nn.GRU`, `nn.LSTM`), which "
            return "cell", does, f"{advice}loops outside Python, or compile {loop}."
        advice = f"Write {loop or 'it'} as operations on whole tensors: one call for all turns in "
        advice += "place of one for each. Pairs come from broadcasting, conditions from masks, "
        return "small calls", does, f"{advice}choices from indexing."
    call = line.called or (line.text if "(" in line.text else "")
    if loop and not call:
        advice = f"Write {loop} as array operations, compute it once an epoch or on fewer samples, "
        return "loop", f"loops in Python: {loop}", f"{advice}or compile it (numba)."
    does = f"spends its time in `{call or line.text}`"
    if function.alone and not line.called:  # it would be named twice
        does = "takes time of its own beside the model"
    advice = f"Run `{line.called or line.text}` ({at(line.where)}) more rarely, once for all, or "
    return "call", does, f"{advice}on another thread while the next step runs."


def _of_lines(evidence: Evidence, function: FunctionLines, name: str, loop: str) -> str:
    """What a step takes there, in numbers of this run."""
    lines, real = evidence.lines, evidence.lines.seconds
    text = f"{name} takes {percent(function.seconds / real)} of each step"
    if evidence.times.noise <= NOISY:
        text += f", {ms(function.seconds)} of {ms(real)}"
    if samples := sum(line.samples for line in function.lines):
        text += f" ({samples:,} of {lines.samples:,} samples)"
    parts = [
        (function.python_s, "in Python and what it calls"),
        (function.small_s, f"in {function.calls:,.0f} calls of small operators, backward included"),
    ]
    told = [f"{percent(seconds / real)} {words}" for seconds, words in parts if seconds]
    text += f": {', '.join(told)}." if function.calls else "."
    if loop:
        text += f" Its lines run in each turn of {loop}."
    called = function.lines[0].callers[-1:]
    return text + (f" It is called at {at(called[0])}." if called else "")


_SMALL_CALLS = """\
for i in range(len(x)):  # a call for each turn, and its backward
    losses.append(distance(x[i], y[i]))

losses = distance(x, y)                   # one call for all
pairs = distance(x[:, None], x[None, :])  # all pairs
chosen = torch.where(mask, pairs, 0.0)    # "if", for each element"""


_WEIGHTS = """\
weights = list(model.parameters())
gradients = [weight.grad for weight in weights]
norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))  # of all
torch._foreach_mul_(gradients, (1.0 / (norm + 1e-6)).clamp(max=1.0))  # clipped, without .item()
with torch.no_grad():
    torch._foreach_lerp_(averages, weights, 1 - decay)  # an average of the weights, in place"""

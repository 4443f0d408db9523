"""A function of the user's own that takes the step: an optimizer, metrics, a cell, by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.step import gpu_may_be_full
from trainperf.fixes.common.words import at, ms, percent
from trainperf.model import Equivalence, Evidence, FunctionLines, Line, OwnWork, is_taken
from trainperf.model.facts import WorkKind
from trainperf.model.findings import Category
from trainperf.model.lines import MANY
from trainperf.model.outside import Outside

MOST = 0.25
"""Share of a step from which a function of the user's own is what it is lost to."""

LEAST = 0.10
"""Share from which work is worth a word whose kind the source shows."""

BACKWARD = 2.0
"""A backward takes about twice its forward, where the two were not timed."""

BUSY = 0.85
"""A GPU that runs kernels so much of the time is what the step waits for, not Python."""

NOISY = 0.25
"""Noise of a step's times from which a share is not put into seconds."""

MANY_TENSORS = 10
"""Tensors of weights from which a number of calls that is a multiple of theirs is seldom chance."""

OF_WEIGHTS = re.compile(r"param|weight|grad|state_dict|(\b|_)ema(\b|_)|momentum", re.IGNORECASE)
"""What code that goes through the weights has in its names."""

MOST_TOLD = 3
BASIS = "all of it, by samples of the stack"


class OwnFunction(Fix):
    """Replace the function of your own that takes the step.

    ## Why it is slow
    Python runs one operation at a time. A loop over hundreds of tensors, over the steps of a
    sequence or over the elements of a batch costs microseconds for each turn, however small its
    tensors are; work on the host keeps the device waiting.

    ## What changes
    The library's own call does the same in one go: for all tensors, the whole sequence, the
    whole batch. Sums may be rounded in another order.

    ## When not to
    When what it computes is not what the library's call computes: compare the losses of a few
    steps first. Code that is run once in a while costs nothing on the whole.
    """

    framework = "any"
    category = "host"
    concerns = "own work"
    equivalence = Equivalence.NUMERICS
    without_edit = "another algorithm, or a library's own function, has to be chosen"
    counted = True
    try_before = ("keras_callback_per_batch", "torch_step_logging", "torch_workers")

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the piece of the user's own code that takes most of a step."""
        if evidence.device.kind == "GPU" and gpu_may_be_full(evidence, BUSY):
            return None
        return _by_kind(evidence) or _by_line(evidence)


# ----------------------------------------------------------------------------- by lines


def _by_line(evidence: Evidence) -> Cause | None:
    """The function whose lines take most of a step, by what no operator's own work explains."""
    lines, waits = evidence.lines, _input_bound(evidence)
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
        data={
            "kind": kind,
            "share": share,
            "whole": function.seconds / lines.seconds,
            "pieces": [(0.0 if rank else share, not function.alone) for rank in range(len(where))],
            "name": name,
            "does": does,
            "takes": surely >= MOST,
        },
    )


def _saving(evidence: Evidence) -> set[tuple[str, int]]:
    """Where checkpoints were seen to be written."""
    turn = evidence.outside_
    spent = turn.spent if isinstance(turn, Outside) else ()
    return {(one.where.file, one.where.line) for one in spent if one.what == "saving" and one.where}


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


def _does(function: FunctionLines, loop: str, tensors: int) -> tuple[str, str, str]:
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
        advice = f"Write {loop or 'it'} as operations on whole tensors: one call for all turns in "
        advice += "place of one for each. Pairs come from broadcasting, conditions from masks, "
        return "small calls", does, f"{advice}choices from indexing."
    call = line.called or (line.text if "(" in line.text else "")
    if loop and not call:
        advice = f"Write {loop} as array operations, compute it once an epoch or on fewer samples, "
        return "loop", f"loops in Python: {loop}", f"{advice}or compile it (numba)."
    does = f"spends its time in `{call or line.text}`"
    if function.alone and not line.called:  # it would be named twice
        does = _WORDS["other"][1]
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


# ---------------------------------------------------------------- by what its source shows


def _by_kind(evidence: Evidence) -> Cause | None:
    """The piece whose source shows what kind of work it is."""
    taking = sorted(_taking(evidence), key=lambda piece: -piece[1])[:MOST_TOLD]
    if not taking:
        return None
    work, share = taking[0]
    (category, does, advice, snippet), name = _WORDS[work.kind], _named(work)
    pieces = {piece.where: (part, not piece.statement) for piece, part in taking}
    return Cause(
        title=f"{name} {does}",
        text=_of_samples(evidence, taking),
        saves=Saving(BASIS, ratio=evidence.bound_if_host_saves(share)),
        where=tuple(pieces),
        advice=advice,
        snippet=snippet,
        equivalence=Equivalence.SEMANTICS if work.kind == "evaluation" else None,
        category=category,
        data={
            "kind": work.kind,
            "share": share,
            "pieces": [*pieces.values()],
            "name": name,
            "does": does,
            "takes": share * work.low / work.share >= MOST,
        },
    )


def _taking(evidence: Evidence) -> Iterator[tuple[OwnWork, float]]:
    """The pieces that surely take a good part of a step, each with its share.

    Lines whose calls were timed one by one, and evaluations that were, are told by the fixes of
    these.
    """
    turn = evidence.outside_
    spent = turn.spent if isinstance(turn, Outside) else ()
    timed = {(part.where.file, part.where.line) for part in spent if part.calls and part.where}
    evaluated = any(part.what in ("evaluation", "prediction") for part in spent)
    for work in evidence.own_work:
        shown = work.kind not in ("sample", "other")
        if (work.where.file, work.where.line) in timed:
            continue
        if not shown and (is_taken(evidence.lines_) or _input_bound(evidence)):
            continue  # told by its lines, or by the fixes of the input
        if work.kind == "evaluation" and evaluated:
            continue
        factor = 1 + _backward(evidence) if work.kind == "recurrence" else 1.0
        if min(1.0, factor * work.low) >= (LEAST if shown else MOST):
            yield work, min(1.0, factor * work.share)


def _input_bound(evidence: Evidence) -> bool:
    """Whether the times show it; then the fixes of the input tell what it passes in."""
    try:
        return evidence.input_bound
    except NotMeasured:
        return False


def _backward(evidence: Evidence) -> float:
    """How much longer the backward takes than the forward."""
    try:
        forward = evidence.torch.part("forward").seconds
        return evidence.torch.part("backward").seconds / max(forward, 1e-9)
    except NotMeasured:
        return BACKWARD


def _named(work: OwnWork) -> str:
    """The function in backquotes, or the place where the module itself does it."""
    return f"`{work.where.function}`" if work.where.function else f"The code at {at(work.where)}"


def _of_samples(evidence: Evidence, taking: list[tuple[OwnWork, float]]) -> str:
    """What a step takes there, by how often the loop's thread was found there."""
    (work, share), *others = taking
    text = (
        f"{_named(work)} ({at(work.where)}) was found in {percent(work.share)} of {work.samples:,} "
        "samples of the loop's thread"
    )
    if work.kind == "recurrence":
        text += f"; with its backward in proportion, {percent(share)} of each step"
    elif is_taken(evidence.times.real_) and evidence.times.noise <= NOISY:
        real = evidence.times.real
        text += f": about {ms(work.share * real)} of each step of {ms(real)}"
    if work.calls_into and not work.calls_into.startswith("_"):
        text += f", mostly in `{work.calls_into}`"
    also = ", ".join(
        f"{_named(piece)} {percent(piece.share)} ({at(piece.where)})" for piece, _ in others
    )
    return f"{text}. Besides: {also}." if also else f"{text}."


_WORDS: dict[WorkKind, tuple[Category, str, str, str]] = {
    "recurrence": (
        "model",
        "calls a cell for every step of the sequence in Python",
        (
            "Give the whole sequence to the library's layer in one call; it loops outside Python. "
            "A cell of your own can be compiled, loop included."
        ),
        """\
outputs, state = nn.LSTM(width, width, batch_first=True)(x)  # x: (batch, time, width)
# or, in Keras
outputs = keras.layers.LSTM(units, return_sequences=True)(x)""",
    ),
    "evaluation": (
        "host",
        "evaluates the model inside the training loop",
        "Evaluate more rarely, or on fewer samples; all of it after an epoch.",
        """\
if step % eval_every == 0:  # such that it takes a few percent of the steps between
    evaluate(model, islice(loader, 20))""",
    ),
    "sample": (
        "input",
        "makes samples on the loop's own thread",
        (
            "Let worker processes make them while the step runs, or prepare once what is the same "
            "in every epoch."
        ),
        """\
loader = DataLoader(dataset, batch_size=batch_size, num_workers=4, persistent_workers=True)
# or, with tf.data
dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)""",
    ),
    "other": (
        "host",
        "takes time of its own beside the model",
        (
            "Do it more rarely, in array operations instead of loops, or on another thread while "
            "the next step runs."
        ),
        "",
    ),
}
"""What each kind of work is about and does, what to do instead, and the library's own way."""

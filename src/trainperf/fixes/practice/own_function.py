"""A function of the user's own that takes the step: an optimizer, metrics, a cell, by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import gpu_may_be_full
from trainperf.fixes.common.words import at, ms, percent, worth_counted
from trainperf.model import Equivalence, Evidence, Finding, FunctionLines, Line, OwnWork, is_taken
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

EVALUATES = ("evaluation", "prediction")

NOISY = 0.25
"""Noise of a step's times from which a share is not put into seconds."""

MOST_TOLD = 3


@dataclass(frozen=True)
class Words:
    """A kind of work: what it does, what to do instead, and what may change by that."""

    category: Category
    does: str  # after the name of a function: "updates tensors one by one in Python"
    advice: str
    torch: str = ""
    tensorflow: str = ""

    def snippet(self, framework: str) -> str:
        """The library's own way, for a framework; "" where there is no one call."""
        return self.torch if framework == "torch" else self.tensorflow


class OwnFunction(Fix):
    """Replace the function of your own that takes the step.

    ## Why it is slow
    Python runs one operation at a time. A loop over hundreds of tensors, over the steps of
    a sequence or over the elements of a batch costs microseconds for each turn, however
    small its tensors are; work on the host keeps the device waiting.

    ## What changes
    The library's own call does the same in one go: for all tensors, the whole sequence,
    the whole batch. Sums may be rounded in another order.

    ## When not to
    When what it computes is not what the library's call computes: compare the losses of a
    few steps first. Code that is run once in a while costs nothing on the whole.
    """

    framework = "any"
    category = "host"
    concerns = "own work"
    equivalence = Equivalence.NUMERICS
    without_edit = "another algorithm, or a library's own function, has to be chosen"
    counted = True
    try_before = ("keras_callback_per_batch", "torch_step_logging", "torch_workers")

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find the piece of the user's own code that takes most of a step."""
        if evidence.device.kind == "GPU" and gpu_may_be_full(evidence, BUSY):
            return None
        return self._by_kind(evidence) or self._by_line(evidence)

    def _by_line(self, evidence: Evidence) -> Finding | None:
        """The function whose lines take most of a step, by what no operator's own work explains."""
        function = dearest(evidence)
        if function is None:
            return None
        lines, line = evidence.lines, function.lines[0]
        share = function.own_s / lines.seconds
        bound, waits = evidence.bound_if_host_saves(share), _input_bound(evidence)
        if waits:
            bound = min(bound, evidence.times.real / evidence.times.resident)
        if not worth_counted(bound):
            return None
        name = f"`{line.text if function.alone else line.where.function}`"
        loop = _loop(line, evidence)
        kind, does = _does(function, loop)
        call = line.called or line.text
        where = tuple(one.where for one in function.lines[:MOST_TOLD])
        finding = self.finding(
            title=f"{name} {does}",
            text=_of_lines(evidence, function, name),
            bound=bound,
            bound_basis="all of it, by samples of the stack",
            where=where,
            advice=_ADVICE[kind].format(loop=loop or "it", line=at(line.where), call=call),
            snippet=_small_calls(evidence) if kind == "small calls" else "",
            data={
                "kind": kind,
                "share": share,
                "whole": function.seconds / lines.seconds,
                "pieces": [
                    (share, not function.alone),
                    *((0.0, not function.alone) for _ in where[1:]),
                ],
                "name": name,
                "does": does,
                "takes": share - lines.half_width(share) >= MOST,
            },
        )
        return replace(finding, category="input" if waits else self.category)

    def _by_kind(self, evidence: Evidence) -> Finding | None:
        """The piece whose source shows what kind of work it is."""
        taking = sorted(_taking(evidence), key=lambda each: -each[1])
        if not taking:
            return None
        work, share = taking[0]
        bound = evidence.bound_if_host_saves(share)
        if not worth_counted(bound):
            return None
        words = _WORDS[work.kind]
        takes = share * work.low / work.share >= MOST
        name = _named(work)
        told = {each.where: (of_step, not each.statement) for each, of_step in taking[:MOST_TOLD]}
        finding = self.finding(
            title=f"{name} {words.does}",
            text=_text(evidence, work, share, [each for each, _ in taking[1:MOST_TOLD]]),
            bound=bound,
            bound_basis="all of it, by samples of the stack",
            where=tuple(told),
            advice=words.advice,
            snippet=words.snippet(evidence.framework.name),
            equivalence=Equivalence.SEMANTICS if work.kind == "evaluation" else None,
            data={
                "kind": work.kind,
                "share": share,
                "pieces": [*told.values()],
                "name": name,
                "does": words.does,
                "takes": takes,
            },
        )
        return replace(finding, category=words.category)


def dearest(evidence: Evidence) -> FunctionLines | None:
    """The function whose own Python surely takes a good part of a step, None where none does."""
    lines = evidence.lines
    functions = lines.functions(evidence.loop.where)
    if not functions or (_input_bound(evidence) and evidence.loop.kind != "call"):
        return None  # the fixes of the input tell of it
    share = functions[0].own_s / lines.seconds
    return functions[0] if share - lines.half_width(share) >= LEAST else None


def _loop(line: Line, evidence: Evidence) -> str:
    """The loop within a step that a line stands in, in words; "" where that is the step's own."""
    own, loop = evidence.loop.where, line.loop
    if loop is None or (own and own.file == loop.file and loop.line <= own.line <= line.where.line):
        return ""
    return f"`{line.loop_text}` ({at(loop)})" if line.loop_text else f"the loop at {at(loop)}"


def _does(function: FunctionLines, loop: str) -> tuple[str, str]:
    """The kind of work that most of it is, and what it does; `loop` is that of its first line."""
    line = function.lines[0]
    if function.small_s > 0.2 * function.own_s and function.calls >= MANY:
        return "small calls", f"makes {function.calls:,.0f} calls of small operators in each step"
    call = line.called or (line.text if "(" in line.text else "")
    if loop and not call:
        return "loop", f"loops in Python: {loop}"
    if function.alone and not line.called:  # it would be named twice
        return "call", _WORDS["other"].does
    return "call", f"spends its time in `{call or line.text}`"


def _of_lines(evidence: Evidence, function: FunctionLines, name: str) -> str:
    """What a step takes there, in numbers of this run."""
    lines, real = evidence.lines, evidence.lines.seconds
    share = function.seconds / real
    text = f"{name} takes {percent(share)} of each step"
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
    if loop := next(filter(None, (_loop(line, evidence) for line in function.lines)), ""):
        text += f" Its lines run in each turn of {loop}."
    called = function.lines[0].callers[-1:]
    return text + (f" It is called at {at(called[0])}." if called else "")


def _taking(evidence: Evidence) -> Iterator[tuple[OwnWork, float]]:
    """The pieces that surely take a good part of a step, each with its share."""
    timed = _lines_timed(evidence)
    for work in evidence.own_work:
        if (work.where.file, work.where.line) in timed:
            continue
        if work.kind in ("sample", "other") and (
            is_taken(evidence.lines_) or _input_bound(evidence)
        ):
            continue  # told by its lines, or by the fixes of the input
        if work.kind == "evaluation" and _evaluations_timed(evidence):
            continue
        factor = 1 + _backward(evidence) if work.kind == "recurrence" else 1.0
        shown = work.kind not in ("sample", "other")
        if min(1.0, factor * work.low) >= (LEAST if shown else MOST):
            yield work, min(1.0, factor * work.share)


def _lines_timed(evidence: Evidence) -> set[tuple[str, int]]:
    """The lines whose calls were timed one by one: the fixes of these tell what they take."""
    turn = evidence.outside_
    if not isinstance(turn, Outside):
        return set()
    called = [one.where for one in turn.spent if one.calls and one.where]
    return {(each.file, each.line) for each in called}


def _evaluations_timed(evidence: Evidence) -> bool:
    """Whether evaluations were timed one by one; then that is what tells of them."""
    turn = evidence.outside_
    return isinstance(turn, Outside) and any(one.what in EVALUATES for one in turn.spent)


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


def _text(evidence: Evidence, work: OwnWork, share: float, others: list[OwnWork]) -> str:
    real = evidence.times.real_
    known = is_taken(real) and evidence.times.noise <= NOISY
    step = f" of {ms(evidence.times.real)}" if known else ""
    text = (
        f"{_named(work)} ({at(work.where)}) was found in {percent(work.share)} of {work.samples:,} "
        f"samples of the loop's thread"
    )
    if work.kind == "recurrence":
        text += f"; with its backward in proportion, {percent(share)} of each step{step}"
    elif step:
        text += f": about {ms(work.share * evidence.times.real)} of each step{step}"
    if work.calls_into and not work.calls_into.startswith("_"):
        text += f", mostly in `{work.calls_into}`"
    text += "."
    if others:
        also = ", ".join(f"{_named(one)} {percent(one.share)} ({at(one.where)})" for one in others)
        text += f" Besides: {also}."
    return text


def _small_calls(evidence: Evidence) -> str:
    torch = evidence.framework.name == "torch"
    return SMALL_CALLS if torch else SMALL_CALLS.replace("torch.", "tf.")


SMALL_CALLS = """\
for i in range(len(x)):  # a call for each turn, and its backward
    losses.append(distance(x[i], y[i]))

losses = distance(x, y)                   # one call for all
pairs = distance(x[:, None], x[None, :])  # all pairs
chosen = torch.where(mask, pairs, 0.0)    # "if", for each element"""

_ADVICE = {
    "small calls": "Write {loop} as operations on whole tensors: one call for all turns in place "
    "of one for each. Pairs come from broadcasting, conditions from masks, "
    "choices from indexing.",
    "loop": "Write {loop} as array operations, compute it once an epoch or on fewer samples, or "
    "compile it (numba) where neither fits.",
    "call": "Run `{call}` ({line}) more rarely, once for all, or on another thread while the next "
    "step runs.",
}
"""What an expert would write in place of it, by what it does."""

_WORDS: dict[WorkKind, Words] = {
    "optimizer": Words(
        "host",
        "updates tensors one by one in Python",
        "Let the library update all tensors in a few calls: an optimizer of its own, or its "
        "operations on lists of tensors.",
        """\
optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)

# or your own rule, one call for all tensors instead of one for each
torch._foreach_mul_(momentum, beta)
torch._foreach_add_(momentum, gradients, alpha=1 - beta)
torch._foreach_add_(parameters, momentum, alpha=-lr)""",
        """\
optimizer = keras.optimizers.AdamW(learning_rate=lr)

# or your own rule, compiled: all updates are one graph
@tf.function
def update(gradients): ...""",
    ),
    "recurrence": Words(
        "model",
        "calls a cell for every step of the sequence in Python",
        "Give the whole sequence to the library's layer in one call; it loops outside Python. "
        "A cell of your own can be compiled, loop included.",
        """\
self.rnn = nn.LSTM(width, width, batch_first=True)  # nn.GRU, nn.RNN alike
outputs, state = self.rnn(x)  # x: (batch, time, width)""",
        """\
outputs = keras.layers.LSTM(units, return_sequences=True)(x)  # x: (batch, time, width)""",
    ),
    "evaluation": Words(
        "host",
        "evaluates the model inside the training loop",
        "Evaluate more rarely, or on fewer samples; all of it after an epoch.",
        """\
if step % eval_every == 0:  # such that it takes a few percent of the steps between
    evaluate(model, islice(loader, 20))""",
        """\
if step % eval_every == 0:  # such that it takes a few percent of the steps between
    evaluate(model, dataset.take(20))""",
    ),
    "metrics": Words(
        "host",
        "judges predictions in Python on the host",
        "Keep what the metric needs as tensors, and compute it once per epoch, or add up counts "
        "with tensor operations.",
        """\
predicted = outputs.detach().argmax(1)
confusion += torch.bincount(  # on the device; read it once per epoch
    targets * classes + predicted, minlength=classes**2
)""",
        """\
metric.update_state(targets, outputs)  # inside the compiled step; read it once per epoch""",
    ),
    "sample": Words(
        "input",
        "makes samples on the loop's own thread",
        "Let worker processes make them while the step runs, or prepare once what is the same in "
        "every epoch.",
        """\
loader = DataLoader(dataset, batch_size=batch_size, num_workers=4, persistent_workers=True)""",
        """\
dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)""",
    ),
    "other": Words(
        "host",
        "takes time of its own beside the model",
        "Do it more rarely, in array operations instead of loops, or on another thread while the "
        "next step runs.",
    ),
}
"""The words for each kind of work."""

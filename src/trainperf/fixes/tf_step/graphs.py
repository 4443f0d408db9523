"""How TensorFlow runs a step: eagerly, compiled, traced again and again."""

from __future__ import annotations

import ast
from typing import Any

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import PROBED, Cause, Saving, Unpriced
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import at, if_measured, ms, percent, probe_said, worth
from trainperf.fixes.tf_step._inline_step import acts_once, compile_inline
from trainperf.fixes.tf_step.settings import as_compiled, unpriced_step
from trainperf.model import Equivalence, Evidence, Finding, Retracing, is_taken
from trainperf.rewrite import Script
from trainperf.source.statements import Function, dotted, last_name, names_in, walk


class TfFunction(Fix):
    """Compile the training step of a custom loop with `@tf.function`.

    Why slow: Without `tf.function`, Python starts every operation of the step one by one, which
    costs small and middle-sized models more than the arithmetic; a GPU waits between them.
    Changes: The step is traced once into a graph, and each call runs that graph. The mathematics
    is the same; rounding and the stream of random numbers may differ. A step that stands in the
    body of the loop becomes a function ahead of it, as far as it does nothing in Python.
    When not:
    - The step must not depend on Python side effects: `print`, `.numpy()`, counters and lists are
      seen only while tracing. Use `tf.print` and `tf.Variable`.
    - Python numbers among the arguments cause a new trace for each value. Pass tensors.
    - Keep what makes variables (a new optimizer, a new layer) out of the step.
    """

    usual = 5.0
    probed_by = "compiled"
    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find an eager step, or that all functions run eagerly."""
        if evidence.facts.get("functions_run_eagerly"):
            return Cause(
                title="tf.config.run_functions_eagerly(True) turns every tf.function off",
                text="The functions that the script compiles, and Keras's own, run operation by "
                "operation.",
                saves=unpriced_step(evidence, "not measured"),
                advice="Take tf.config.run_functions_eagerly(True) out: it is for debugging.",
                snippet="tf.config.run_functions_eagerly(False)",
            )
        step = evidence.step_function
        if step is None or step.compiled:
            return None
        said = probe_said(evidence, "compiled", "Compiled with tf.function, the same step")
        name, inline = step.name or "train_step", step.where is None
        where = step.where or step.tape_where
        place = f" ({at(where)})" if where else ""
        return Cause(
            title=f"{'The training step' if inline else f'`{name}`'}{place} runs eagerly, "
            "operation by operation",
            text=f"Python starts each operation of the step one by one.{said}",
            saves=as_compiled(evidence),
            where=(where,) if where else (),
            advice="Move the tape and the update into a function of their own, compiled."
            if inline
            else f"Put @tf.function above `def {name}`.",
            snippet=MOVED if inline else f"@tf.function\ndef {name}(...):",
            rewritable=None if inline else True,
            data={"inline": True} if inline else {},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Decorate the step function; make one of a step that is none."""
        site = finding.where[0]
        if finding.data.get("inline"):
            compile_inline(script, site)
            return
        script.decorate(site, f"{script.module_name(site.file, 'tensorflow')}.function")


MOVED = """\
@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

for x, y in dataset:
    loss = train_step(x, y)"""


class TfJitCompile(Fix):
    """Compile the `tf.function` of a training step with XLA: `jit_compile=True`.

    Why slow: A `tf.function` runs each operation of its graph as a kernel of its own, which reads
    its input from memory and writes its result back. XLA fuses them.
    Changes: The function is compiled as a whole for each shape of its arguments, which takes
    seconds to minutes once. The mathematics is the same, rounding differs.
    When not:
    - Batches of changing shape are compiled anew for each shape.
    - Operations that XLA does not know (strings, lookups, `tf.py_function`, iterators) make the
      first call fail.
    - Runs too short to earn the compilation back.
    """

    category = "model"
    usual = 1.2
    probed_by = "jit_compile"
    compiles = True
    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a compiled step of the user's own loop where XLA is off and may be turned on."""
        step = evidence.step_function
        if step is None or not step.compiled or step.jit is not False or evidence.loop.replicas > 1:
            return None
        name = step.name or "train_step"
        said = probe_said(evidence, "jit_compile", "Compiled with XLA, the same step")
        if said:
            said += f" Compiling took {ms(evidence.probe('jit_compile').one_off_s)}, once."
        return Cause(
            title=f"`{name}`{f' ({at(step.where)})' if step.where else ''} is compiled without XLA",
            text=f"Each operation of its graph runs as a kernel of its own.{said}",
            saves=Saving(PROBED, probe="jit_compile"),
            where=(step.where,) if step.where else (),
            advice="Give tf.function jit_compile=True.",
            snippet=f"@tf.function(jit_compile=True)\ndef {name}(...):",
            rewritable=step.where is not None,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the decorator the keyword, or the call of `tf.function` that takes the function."""
        site = finding.where[0]
        function, module = script.definition(site), script.source(site.file).module
        if function.decorator_list:
            tensorflow = script.module_name(site.file, "tensorflow", site)
            script.set_decorator_keyword(site, f"{tensorflow}.function", "jit_compile", "True")
            return
        calls = [
            call
            for call in module.calls("tensorflow.function")
            if call.args and last_name(call.args[0]) == function.name
        ]
        if len(calls) != 1:
            raise CannotRewrite(f"where {function.name} is compiled is not seen")
        script.set_keyword(script.site_of(site, calls[0]), "jit_compile", "True")


RECURRING = 3
"""Tracings after the first from which they recur: one more is normal (the smaller last batch), two
happen with a smaller last batch in validation as well."""

EVERY_STEP = 0.9
"""Tracings per step from which no step was seen without: what one takes is not known."""


class TfRetracing(Fix):
    """Stop the training function from being traced again.

    Why slow: A `tf.function` is traced for each new combination of shapes, types and Python values
    of its arguments. Each trace builds a new graph, and costs as much as hundreds of steps.
    Changes: Tensors in place of Python numbers, one signature for all shapes, or batches of one
    shape: then one trace serves every call. `min` and `max` of a number become `tf.minimum` and
    `tf.maximum`; `drop_remainder=True` leaves the smaller last batch of an epoch out.
    When not:
    - A few traces at the start (one per bucket of lengths) are the price of less padding.
    - XLA needs fixed shapes: there, pad to a few lengths instead of relaxing them.
    - What Python does while tracing (`print`, counters, lists) was done in every step, and is done
      once after this: no edit is written for such a function.
    """

    usual = 3.0
    counted = True
    equivalence = Equivalence.NUMERICS
    lasting = False  # a shape or a number may stop changing

    def look(self, evidence: Evidence) -> Cause | None:
        """Find traces after the first; they are told where they recur and their time stands out."""
        seen = evidence.retracing
        if seen is None or seen.count < 2 or seen.steps <= 0:
            return None
        # One batch replayed has one shape, so the resident step has no tracings.
        without = seen.changes != "value" and is_taken(evidence.times.resident_)

        def saved() -> float:
            waits = evidence.times.real - evidence.times.resident if without else None
            return evidence.tracing_s if waits is None else min(evidence.tracing_s, waits)

        saves: Saving | Unpriced = Saving(
            "the time of the tracings seen; those that end by themselves included", saved
        )
        sure = seen.count >= RECURRING
        if not without and seen.count >= EVERY_STEP * seen.steps:
            basis = "no step ran without tracing; more than the tracings take"
            saves = unpriced_step(evidence, basis)
            sure = sure and _stands_out(evidence)
        place = f" ({at(seen.where)})" if seen.where else ""
        share = if_measured(lambda: f" ({percent(seen.step_s / evidence.times.real)})")
        advice, snippet, equivalence = _advice(seen)
        return Cause(
            title=f"`{seen.function}`{place} was traced {1 + seen.count} times",
            text=f"{seen.count} tracings in {seen.steps} steps, and the first runs of the new "
            f"graphs, took {ms(seen.step_s)} of a timed step on average{share}."
            f"{f' What changed: {seen.cause}.' if seen.cause else ''}",
            saves=saves,
            advice=advice,
            snippet=snippet,
            sure=sure,
            equivalence=equivalence,
            **_edit(seen),
        )

    def lasts(self, finding: Finding) -> bool:
        """Only where a number made each step a new one, as a count of steps does."""
        return bool(finding.data.get("numbers") and finding.data.get("each_step"))

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Turn the numbers into tensors where they are given, or relax the decorator."""
        head = finding.where[0]
        function = script.definition(head)
        if reason := acts_once(script.source(head.file).module, function.body):
            raise CannotRewrite(f"{function.name} needs it as it is: {reason}")
        tensorflow = script.module_name(head.file, "tensorflow", head)
        numbers = finding.data.get("numbers", [])
        if not numbers:
            script.set_decorator_keyword(head, f"{tensorflow}.function", "reduce_retracing", "True")
        bounds = dict[ast.Call, None]()
        for number in numbers:
            reckoned, of_number = _uses(function, number["parameter"])
            site = finding.where[number["site"]]
            # whole numbers go together with no float, and products may outgrow an int32
            dtype = "float32" if reckoned else number["dtype"]
            name = script.module_name(site.file, "tensorflow", site)
            template = f"{name}.constant({{}}, {name}.{dtype})"
            script.wrap_argument(site, number["argument"], template)
            bounds |= dict.fromkeys(of_number)
        for call in bounds:
            bound = BOUNDS[dotted(call.func)]
            script.replace_node(head.file, call.func, f"{tensorflow}.{bound}")


def _stands_out(evidence: Evidence) -> bool:
    try:
        return worth(evidence, bound_if_saved(evidence, evidence.tracing_s))
    except NotMeasured:
        return False


def _edit(seen: Retracing) -> dict[str, Any]:
    """The places and what is to be done there, as far as what ran tells."""
    if seen.where is None:
        return {"rewritable": False}
    if not seen.numbers:
        return {"where": (seen.where,), "rewritable": seen.changes == "shape"}
    calls = list(dict.fromkeys(number.where for number in seen.numbers))
    numbers = [
        {
            "site": 1 + calls.index(number.where),
            "argument": number.argument,
            "parameter": number.parameter,
            "dtype": number.dtype,
        }
        for number in seen.numbers
    ]
    known = all(n.parameter and n.dtype and n.where.exact for n in seen.numbers)
    data = {"numbers": numbers, "each_step": seen.count >= EVERY_STEP * seen.steps}
    return {"where": (seen.where, *calls), "data": data, "rewritable": known}


def _advice(seen: Retracing) -> tuple[str, str, Equivalence]:
    """Say what to do, in words and code, and what that may change, by the cause of retracing."""
    if seen.changes == "value":
        known = (f"{n.parameter}, tf.{n.dtype}" for n in seen.numbers if n.parameter and n.dtype)
        return (
            "Pass numbers that change as tensors: each new Python value is traced anew.",
            f"{seen.function}(..., tf.constant({next(known, 'value')}))",
            Equivalence.NUMERICS,
        )
    if seen.changes == "dtype":
        return (
            "Cast the inputs to one dtype before the call.",
            "x = tf.cast(x, tf.float32)",
            Equivalence.NUMERICS,
        )
    if seen.where is not None:
        return (
            "Let one trace serve all shapes.",
            f"@tf.function(reduce_retracing=True)\ndef {seen.function}(...):",
            Equivalence.NUMERICS,
        )
    return (
        "Make batches of one shape: drop the smaller last batch, pad sequences to a few lengths.",
        "dataset = dataset.batch(batch_size, drop_remainder=True)",
        Equivalence.SEMANTICS,
    )


# What a number becomes in the traced function; a use that takes no tensor fails in the trial.

BOUNDS = {"min": "minimum", "max": "maximum"}
"""Built-in functions of two numbers, and TensorFlow's of the same."""


WHOLE = ast.Add | ast.Sub | ast.FloorDiv | ast.Mod
"""What makes of whole numbers others that are as small, such as the end of a slice."""


def _uses(function: Function, parameter: str) -> tuple[bool, list[ast.Call]]:
    """Whether a number, or what is made of it, is multiplied or meets floats; what bounds it."""
    numbers, nodes = {parameter}, list(walk(function.body))
    for node in nodes:
        if isinstance(node, ast.Assign) and _is_of(node.value, numbers):
            numbers |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    sums = [node for node in nodes if isinstance(node, ast.BinOp)]
    sums = [node for node in sums if _is_of(node.left, numbers) or _is_of(node.right, numbers)]
    calls = [node for node in nodes if isinstance(node, ast.Call) and _bounds(node)]
    calls = [call for call in calls if any(_is_of(given, numbers) for given in call.args)]
    floats = (
        isinstance(node, ast.Constant) and isinstance(node.value, float)
        for made in (*sums, *calls)
        for node in ast.walk(made)
    )
    return any(floats) or not all(isinstance(node.op, WHOLE) for node in sums), calls


def _is_of(value: ast.AST, numbers: set[str]) -> bool:
    calls = any(isinstance(node, ast.Call) and not _bounds(node) for node in ast.walk(value))
    return bool(names_in(value) & numbers) and not calls


def _bounds(call: ast.Call) -> bool:
    """Whether a call is `min(a, b)` or `max(a, b)`."""
    return len(call.args) == 2 and not call.keywords and dotted(call.func) in BOUNDS

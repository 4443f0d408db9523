"""float64 where float32 would do: batches, and models that compute in it."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.step import resident_seconds, step_seconds
from trainperf.fixes.common.words import MIB, ms, percent
from trainperf.fixes.torch_step._source import innermost_loop
from trainperf.fixes.torch_step._step import part_seconds
from trainperf.model import Equivalence, Evidence, Finding, Missing, Site, TorchModel, is_taken
from trainperf.rewrite import Script
from trainperf.source.arguments import handed
from trainperf.source.bodies import function_of
from trainperf.source.module import Module, inside
from trainperf.source.scopes import FUNCTIONS
from trainperf.source.statements import called, root

SETTERS = ("set_floatx", "set_dtype_policy", "set_global_policy")
"""Functions of Keras by which a script chooses float64 for all that follows."""

PASSES = 3
"""Times a batch is written on its way: batched, handed to the device, cast."""

BYTES_PER_SECOND = 6e9
"""Rate of one pass: about what a copy from pageable host memory reaches."""

LARGEST_RATIO = 3.0
"""Largest gain of a model in float32 on a CPU: half the bytes, twice the lanes, and kernels that
its libraries have for float32 only. 2.1 and 2.6 times were measured (`tests/real`)."""


class Float64Input(Fix):
    """Use float32 in place of float64.

    Why slow: NumPy computes in float64 unless told otherwise: batches then have twice the bytes to
    be built, copied and cast. A model that computes in float64 itself (`set_floatx("float64")`)
    runs at half the speed on a CPU and far below on most GPUs.
    Changes: Half the bytes. Keras layers cast their input to float32 in any case, so for the input
    only rounding on the way can differ.
    When not:
    - Data that needs more than seven digits (timestamps, identifiers) before it is scaled.
    - Scientific models that were found to need float64.
    """

    framework = "tensorflow"
    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find models that compute in float64, and batches of it that are large."""
        if evidence.models and evidence.model.policy == "float64":
            where = evidence.model.compile_where
            return _model_cause(
                evidence,
                resident_seconds(evidence),
                title="The model computes in float64",
                text="Its policy is float64, so every weight and product has twice the bytes",
                where=(where,) if where else (),
                advice='Leave set_floatx("float64") out, or set "float32".',
                snippet='keras.config.set_floatx("float32")',
            )
        loop = evidence.loop
        if "float64" not in loop.batch_dtypes or loop.batch_bytes is None:
            return None
        stages, where = evidence.stages_, loop.where
        if not isinstance(stages, Missing) and stages and stages[0].op == "from_tensor_slices":
            where = stages[0].where or where
        return _batch_cause(
            evidence,
            loop.batch_bytes,
            where=(where,) if where else (),
            rewritable=False,
            advice="Make the arrays float32 where they are built or loaded.",
            snippet="x = x.astype(np.float32)",
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Choose float32 where float64 was chosen."""
        file = finding.where[0].file
        calls = [node for node in ast.walk(script.module(file)) if isinstance(node, ast.Call)]
        chosen = [call.args[0] for call in calls if called(call) in SETTERS and call.args]
        chosen = [given for given in chosen if getattr(given, "value", None) == "float64"]
        if not chosen:
            raise CannotRewrite("float64 is not chosen in the file that compiles")
        for given in chosen:
            script.replace_node(file, given, '"float32"')


def _model_cause(evidence: Evidence, seconds: float, text: str, **told: Any) -> Cause:
    """The cause of a model that computes in float64, for so many seconds of a step."""
    on_gpu = evidence.device.kind == "GPU"
    return Cause(
        text=f"{text}{', and most GPUs do float64 at a small part of their speed' * on_gpu}.",
        saves=Unpriced("not measured", of="step")
        if on_gpu
        else Saving(
            "twice the lanes, half the bytes, kernels for float32",
            seconds * (1 - 1 / LARGEST_RATIO),
        ),
        **told,
    )


def _batch_cause(evidence: Evidence, size: int, **told: Any) -> Cause:
    """The cause of batches of so many bytes that have twice what they need."""
    real = evidence.times.real
    needless = min(size / 2 * PASSES / BYTES_PER_SECOND, real / 2)
    return Cause(
        title="The batches are float64",
        text=f"Each batch has {size / MIB:.0f} MiB. Half of that, built, copied and cast, takes up "
        f"to about {ms(needless)} of each step ({percent(needless / real)}).",
        saves=Saving("an estimate from the bytes of a batch", needless, of="all"),
        **told,
    )


# ------------------------------------------------------------------------------- PyTorch

PLACES = 3
"""Where the model is built, the loop, and the model's call: all are needed for an edit."""


class TorchFloat64(Fix):
    """Use float32 in place of float64 in batches and weights.

    Why slow: NumPy computes in float64 unless told otherwise, and `torch.from_numpy` keeps that:
    batches have twice the bytes to be collated, copied and cast. A model made `.double()` runs at
    half the speed on a CPU, and far below on most GPUs.
    Changes: Half the bytes. Where the loop casts the batch to float32 in any case, only rounding
    on the way can differ; a float64 model gets results of seven digits. The edit is one of the
    model's and the loop's files; batches alone take a look at how they are made.
    When not:
    - Data that needs more than seven digits (timestamps, identifiers) before it is scaled.
    - Scientific models that were found to need float64.
    """

    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find models that compute in float64, and batches of it that are large."""
        torch, loop = evidence.torch, evidence.loop
        doubled = [model for model in torch.models if model.trained and "float64" in model.dtypes]
        if not doubled:
            if torch.flag("float64_batch") is not True or loop.batch_bytes is None:
                return None
            items = (loader.item for loader in torch.loaders if loader.role == "training")
            where = next(items, None) or loop.where
            return _batch_cause(
                evidence,
                loop.batch_bytes,
                where=(where,) if where else (),
                rewritable=False,
                advice="Make the items float32 in the dataset or its collate function.",
                snippet="item = torch.from_numpy(array).float()",
            )
        model = max(doubled, key=lambda model: model.parameters or 0)
        computing = ("forward", "backward", "optimizer")
        if is_taken(torch.split_):
            seconds = part_seconds(evidence, *(p.name for p in torch.split if p.name in computing))
            took = f"Forward, backward and update take {ms(seconds)} of the "
            took += f"{ms(evidence.times.real)} step"
        else:
            seconds = step_seconds(evidence)
            took = f"A step takes {ms(evidence.times.real)}"
        sites = tuple(site for site in (model.where, loop.where, model.call) if site is not None)
        partly = "Some of its" if len(model.dtypes) > 1 else "Its"
        return _model_cause(
            evidence,
            seconds,
            title=f"{model.cls} computes in float64",
            text=f"{partly} weights are float64, so they and their products have twice the bytes. "
            + took,
            where=sites,
            rewritable=len(sites) == PLACES and all(site.exact for site in sites),
            data={"batch": _converted(evidence, model)},
            advice="Leave `.double()` and `set_default_dtype(torch.float64)` out, and make the "
            "batches float32.",
            snippet=f"{model.name or 'model'}.float()",
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have the files of the model and of the loop speak of float32 in place of float64."""
        built, loop, call = finding.where
        for target in (script.copy(), script):  # what cannot all be done is not begun
            to_float32(target, built, loop, call, finding.data["batch"])


def _converted(evidence: Evidence, model: TorchModel) -> str:
    """Return the part of a batch that is float64: "all", "first" (the model's input), or ""."""
    types = evidence.loop.batch_dtypes
    if "float64" not in types:
        return ""
    if types == ("float64",):
        return "all"
    return "" if "Embedding" in model.modules else "first"


TYPES = {
    "torch.float64": "float32",
    "torch.double": "float32",
    "torch.DoubleTensor": "FloatTensor",
    "numpy.float64": "float32",
    "numpy.double": "float32",
}
"""Types by the modules' own names, and the attribute of the same module that takes their place."""

DEFAULT = ("set_default_dtype", "set_default_tensor_type")
"""What makes weights float64, and no array."""


def to_float32(script: Script, built: Site, loop: Site, call: Site, batch: str) -> None:
    """Edit the files in which the model is built and the loop stands.

    `batch` says what of a batch comes as float64 ("all", "first": what the model is given, or
    ""): it is converted where nothing in the files makes it so. Raises `CannotRewrite` where
    nothing there makes the model float64.
    """
    changed = arrays = False
    for near in {site.file: site for site in (built, loop)}.values():
        module = script.source(near.file).module
        for node in module.nodes:
            above = module.parent(node)
            caller = called(above) if isinstance(above, ast.Call) else ""
            name = (module.name(node) or "") if isinstance(node, ast.Attribute) else ""
            if isinstance(node, ast.Attribute) and name in TYPES:
                script.replace_node(near.file, node, f"{ast.unparse(node.value)}.{TYPES[name]}")
                arrays |= name.startswith("numpy") or caller not in DEFAULT
            elif isinstance(node, ast.Constant) and node.value in ("float64", "double"):
                if caller != "astype":
                    continue
                script.replace_node(near.file, node, '"float32"')
                arrays = True
            elif isinstance(node, ast.Call) and ast.unparse(node).endswith(".double()"):
                site = script.site_of(near, node)
                script.rename_call(site, "float")
                alone = isinstance(above, ast.Expr)  # as the model's is, or where that is built
                arrays |= not alone and script.around(site)[-1] not in script.around(built)
            else:
                continue
            changed = True
    if not changed:
        raise CannotRewrite("nothing in the files of the model and the loop makes it float64")
    if batch and not arrays:
        _convert(script, loop, call, batch)


def _convert(script: Script, loop: Site, call: Site, batch: str) -> None:
    """Make float32 of a batch that the loader gives as float64, and of all else the model gets."""
    module = script.source(loop.file).module
    calls = _calls_of(module, script.call(call).func)
    converted: list[ast.AST] = []
    if batch == "all":
        training = innermost_loop(script, loop)
        for node in module.nodes:  # an evaluation is given such batches as well
            own = [given for given in inside(node) if given in calls] if _batch(node) else []
            names = [ast.unparse(part) for part in _batch(node)]
            alike = len(names) == len(_batch(training))
            if node is training or (alike and any(root(given.args[0]) in names for given in own)):
                _convert_in(script, loop, node)
                converted.append(node)
    for given in calls:
        if not any(node in converted for node in module.around(given)):
            script.wrap_argument(script.site_of(loop, given), 0, "{}.float()")


def _calls_of(module: Module, model: ast.expr) -> list[ast.Call]:
    """The calls of a model in its file; refuses a function that has it by another name."""
    text, calls = ast.unparse(model), [node for node in module.nodes if isinstance(node, ast.Call)]
    for call in calls:
        function = function_of(module, call.func)
        if not isinstance(function, FUNCTIONS):
            continue
        if any(ast.unparse(given) == text != name for name, given in handed(function, call)):
            raise CannotRewrite(f"{function.name} has the model by another name")
    return [call for call in calls if call.args and ast.unparse(call.func) == text]


def _batch(loop: ast.AST) -> list[ast.expr]:
    """The parts of the target of a loop, without the count of `enumerate`."""
    if not isinstance(loop, ast.For):
        return []
    target, counted = loop.target, isinstance(loop.iter, ast.Call) and called(loop.iter)
    if counted == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        target = target.elts[1]
    return list(target.elts) if isinstance(target, ast.Tuple) else [target]


def _convert_in(script: Script, near: Site, loop: ast.AST) -> None:
    parts = _batch(loop)
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    if not isinstance(loop, ast.For) or len(names) < len(parts):
        raise CannotRewrite("the loop gives its batch no plain names")
    values = ", ".join(f"{name}.float()" for name in names)
    place = replace(near, line=loop.body[0].lineno, col=0, end_line=0, end_col=0)
    script.insert_before(place, f"{', '.join(names)} = {values}")

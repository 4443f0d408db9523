"""float64 where float32 would do."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import MIB, ms, percent, worth
from trainperf.model import Equivalence, Evidence, Finding, Missing, Site
from trainperf.rewrite import Script

SETTERS = ("set_floatx", "set_dtype_policy", "set_global_policy")
"""Functions of Keras by which a script chooses float64 for all that follows."""

PASSES = 3
"""Times a batch is written on its way: batched, handed to the device, cast."""

BYTES_PER_SECOND = 6e9
"""Rate of one pass: about what a copy from pageable host memory reaches."""

LARGEST_RATIO = 2.0
"""Largest gain of float32 over float64: half the bytes, and on a CPU twice the lanes."""


class Float32(Fix):
    """Use float32 in place of float64.

    ## Why it is slow
    NumPy computes in float64 unless told otherwise. Batches then have twice the bytes
    to be built, copied and cast. A model that computes in float64 itself
    (`set_floatx("float64")`) runs at half the speed on a CPU and far below on most GPUs.

    ## What changes
    Half the bytes. Keras layers cast their input to float32 in any case, so for the
    input only rounding on the way can differ.

    ## When not to
    - Data that needs more than seven digits (timestamps, identifiers) before it is scaled.
    - Scientific models that were found to need float64.
    """

    category = "model"
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find models that compute in float64, and batches of it that are large."""
        if evidence.models and evidence.model.policy == "float64":
            return self._model(evidence)
        loop = evidence.loop
        if "float64" not in loop.batch_dtypes or loop.batch_bytes is None:
            return None
        needless = loop.batch_bytes / 2 * PASSES / BYTES_PER_SECOND
        real = evidence.times.real
        bound = min(LARGEST_RATIO, real / max(real - needless, 1e-9))
        if not worth(evidence, bound):
            return None
        share = min(0.5, needless / real)
        arrays = _arrays(evidence)
        where = arrays or loop.where
        return self.finding(
            title="The batches are float64",
            text=f"Each batch has {loop.batch_bytes / MIB:.0f} MiB. Half of that, built, copied "
            f"and cast, takes up to about {ms(share * real)} of each step ({percent(share)}).",
            bound=bound,
            bound_basis="an estimate from the bytes of a batch",
            where=(where,) if where else (),
            rewritable=None if arrays else False,
            data={"parts": list(loop.batch_parts)},
            advice="Make the arrays float32 where they are built or loaded.",
            snippet="x = x.astype(np.float32)",
        )

    def _model(self, evidence: Evidence) -> Finding | None:
        saved = evidence.times.resident * (1 - 1 / LARGEST_RATIO)
        bound = bound_if_saved(evidence, saved)
        if not worth(evidence, bound):
            return None
        on_gpu = evidence.device.kind == "GPU"
        where = evidence.model.compile_where
        return self.finding(
            title="The model computes in float64",
            text="Its policy is float64, so every weight and product has twice the bytes"
            + (", and most GPUs do float64 at a small part of their speed." if on_gpu else "."),
            bound=None if on_gpu else bound,
            bound_basis="not measured" if on_gpu else "twice the lanes, half the bytes",
            where=(where,) if where else (),
            advice='Leave set_floatx("float64") out, or set "float32".',
            snippet='keras.config.set_floatx("float32")',
            data={"policy": True},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Choose float32 where float64 was chosen; else cast the arrays of the dataset to it."""
        site = finding.where[0]
        if finding.data.get("policy"):
            script.replace_call(_choice(script, site), '"float32"')
            return
        for array in _doubles(script, site, finding.data["parts"]):
            text = script.expression(array)
            plain = isinstance(ast.parse(text, mode="eval").body, ast.Name | ast.Attribute)
            script.wrap_call(array, '{}.astype("float32")' if plain else '({}).astype("float32")')


def _arrays(evidence: Evidence) -> Site | None:
    """Where the dataset is made of arrays, if it is."""
    if isinstance(evidence.stages_, Missing) or not evidence.stages_:
        return None
    first = evidence.stages_[0]
    return first.where if first.op == "from_tensor_slices" else None


def _choice(script: Script, site: Site) -> Site:
    """Where "float64" stands in the one call of the file that chooses it."""
    found = []
    for node in ast.walk(script.module(site.file)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        given = node.args[0]
        if name in SETTERS and isinstance(given, ast.Constant) and given.value == "float64":
            found.append(given)
    if len(found) != 1:
        raise CannotRewrite("float64 is not chosen at one place of the file that compiles")
    return script.site_of(site, found[0])


def _doubles(script: Script, site: Site, parts: list[str]) -> list[Site]:
    """Where the arrays stand that are float64, in the call that makes a dataset of them."""
    call = script.call(site)
    if len(call.args) != 1 or call.keywords:
        raise CannotRewrite("the dataset is not made of arrays alone")
    (given,) = call.args
    arrays = given.elts if isinstance(given, ast.Tuple) else [given]
    plain = ast.Name | ast.Attribute | ast.Subscript | ast.BinOp | ast.Call
    if len(arrays) != len(parts) or not all(isinstance(one, plain) for one in arrays):
        raise CannotRewrite("which of its arrays is float64 is not to be seen")
    return [
        script.site_of(site, one)
        for one, kind in zip(arrays, parts, strict=True)
        if kind == "float64"
    ]

"""float64 where float32 would do."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.cases import GPU, SITE, evidence
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.model import Equivalence, Evidence, Finding, Loop, ModelFacts

PASSES = 3
"""Times a batch is written on its way: batched, handed to the device, cast."""

BYTES_PER_SECOND = 6e9
"""Rate of one pass: about what a copy from pageable host memory reaches."""

LARGEST_RATIO = 2.0
"""Largest gain of float32 over float64: half the bytes, and on a CPU twice the lanes."""

MIB = 1024**2
DOUBLE_MODEL = ModelFacts("model", "Functional", policy="float64", compile_where=SITE)


def _loop(batch_bytes: int | None, *dtypes: str) -> Loop:
    return Loop("iterator", where=SITE, batch_bytes=batch_bytes, batch_dtypes=dtypes)


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

    silent = [
        evidence(),
        evidence(loop=_loop(200 * MIB, "float32", "int64")),
        # float64, but a few kilobytes of it: labels, small tables
        evidence(loop=_loop(40_000, "float64", "float32")),
        # how much it is, is not known
        evidence(loop=_loop(None, "float64")),
        # a float64 model that waits for its input
        evidence(model=DOUBLE_MODEL, resident=0.004, input=0.098),
        evidence(real=None, loop=_loop(200 * MIB, "float64")),
    ]
    fires = [
        evidence(loop=_loop(200 * MIB, "float64", "int64")),
        evidence(model=DOUBLE_MODEL),
        evidence(model=DOUBLE_MODEL, device=GPU),
    ]

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
        return self.finding(
            title="The batches are float64",
            text=f"Each batch has {loop.batch_bytes / MIB:.0f} MiB. Half of that, built, copied "
            f"and cast, takes up to about {ms(share * real)} of each step ({percent(share)}).",
            bound=bound,
            bound_basis="an estimate from the bytes of a batch",
            where=(loop.where,) if loop.where else (),
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
        )

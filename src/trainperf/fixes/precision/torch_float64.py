"""float64 where float32 would do, in PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import MIB, ms, percent, worth
from trainperf.fixes.precision._float32_edits import to_float32
from trainperf.fixes.precision.float64_input import BYTES_PER_SECOND, LARGEST_RATIO, PASSES
from trainperf.fixes.torch_step._step import part_seconds
from trainperf.model import Equivalence, Evidence, Finding, TorchModel

if TYPE_CHECKING:
    from trainperf.rewrite import Script

PLACES = 3
"""Where the model is built, the loop, and the model's call: all are needed for an edit."""


class TorchFloat32(Fix):
    """Use float32 in place of float64 in batches and weights.

    ## Why it is slow
    NumPy computes in float64 unless told otherwise, and `torch.from_numpy` keeps that.
    Batches then have twice the bytes to be collated, copied and cast. A model made
    `.double()` runs at half the speed on a CPU, and far below on most GPUs.

    ## What changes
    Half the bytes. Where the loop casts the batch to float32 in any case, only rounding
    on the way can differ; a float64 model gets results of seven digits. The edit is one of
    the model's and the loop's files; batches alone take a look at how they are made.

    ## When not to
    - Data that needs more than seven digits (timestamps, identifiers) before it is scaled.
    - Scientific models that were found to need float64.
    """

    category = "model"
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find models that compute in float64, and batches of it that are large."""
        doubled = [one for one in evidence.torch.models if one.trained and "float64" in one.dtypes]
        if doubled:
            return self._model(evidence, max(doubled, key=lambda one: one.parameters or 0))
        size = evidence.loop.batch_bytes
        if evidence.torch.flag("float64_batch") is not True or size is None:
            return None
        real = evidence.times.real
        needless = min(size / 2 * PASSES / BYTES_PER_SECOND, real * (1 - 1 / LARGEST_RATIO))
        bound = real / (real - needless)
        if not worth(evidence, bound):
            return None
        loaders = evidence.torch.loaders
        where = next((each.item for each in loaders if each.role == "training"), None)
        where = where or evidence.loop.where
        return self.finding(
            title="The batches are float64",
            text=f"Each batch has {size / MIB:.0f} MiB. Half of that, collated, copied and cast, "
            f"takes up to about {ms(needless)} of each step ({percent(needless / real)}).",
            bound=bound,
            bound_basis="an estimate from the bytes of a batch",
            where=(where,) if where else (),
            advice="Make the items float32 in the dataset or its collate function.",
            snippet="item = torch.from_numpy(array).float()",
            rewritable=False,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have the files of the model and of the loop speak of float32 in place of float64."""
        built, loop, call = finding.where
        to_float32(script, built, loop, call, finding.data["batch"])

    def _model(self, evidence: Evidence, model: TorchModel) -> Finding | None:
        parts = [
            part.name
            for part in evidence.torch.split
            if part.name in ("forward", "backward", "optimizer")
        ]
        seconds = part_seconds(evidence, *parts)
        bound = bound_if_saved(evidence, seconds * (1 - 1 / LARGEST_RATIO))
        if not worth(evidence, bound):
            return None
        on_gpu = evidence.device.kind == "GPU"
        places = (model.where, evidence.loop.where, model.call)
        where = tuple(site for site in places if site is not None)
        partly = "Some of its" if len(model.dtypes) > 1 else "Its"
        return self.finding(
            title=f"{model.cls} computes in float64",
            text=f"{partly} weights are float64, so they and their products have twice the bytes. "
            f"Forward, backward and update take {ms(seconds)} of the {ms(evidence.times.real)} "
            "step"
            + (", and most GPUs do float64 at a small part of their speed." if on_gpu else "."),
            bound=None if on_gpu else bound,
            bound_basis="not measured" if on_gpu else "twice the lanes, half the bytes",
            where=where,
            rewritable=len(where) == PLACES and all(site.exact for site in where),
            data={"batch": _converted(evidence, model)},
            advice="Leave `.double()` and `set_default_dtype(torch.float64)` out, and make the "
            "batches float32.",
            snippet=f"{model.name or 'model'}.float()",
        )


def _converted(evidence: Evidence, model: TorchModel) -> str:
    """Return the part of a batch that is float64: "all", "first" (the model's input), or ""."""
    types = evidence.loop.batch_dtypes
    if "float64" not in types:
        return ""
    if types == ("float64",):
        return "all"
    return "" if "Embedding" in model.modules else "first"

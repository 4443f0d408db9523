"""Recurrent layers that are unrolled into one copy per time step."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.step import step_may_matter
from trainperf.fixes.common.words import at, ms, percent
from trainperf.fixes.tf_step.rnn_cudnn import CUDNN_LAYERS, UNROLL, why_not
from trainperf.model import Equivalence, Evidence, Finding, LayerFacts

LONG_TRACING_S = 10.0
"""Tracing that takes longer than this is felt at every start of the script."""

RUN_SHARE = 0.20
"""Share of the whole planned run that tracing must take before it outweighs the steps.

Without a GPU an unrolled LSTM runs faster, step for step, than one in a loop: about
1.35 times at 20 to 100 time steps, measured on two CPU cores with Keras 3.15.
"""


class RollUp(Fix):
    """Take `unroll=True` out of recurrent layers.

    ## Why it is slow
    An unrolled layer puts one copy of its cell into the graph for each time step. The
    graph of a long sequence takes minutes to trace and compile, and much memory. On a
    GPU it also keeps an LSTM or GRU from using the cuDNN kernel.

    ## What changes
    The same cell runs in a loop, or in cuDNN on a GPU. The numbers are the same, to
    rounding.

    ## When not to
    - Without a GPU, and for sequences of a few dozen steps at most, the unrolled layer
      runs faster once it is traced. Long runs are then better off with it.
    """

    category = "model"
    equivalence = Equivalence.EXACT
    without_edit = "without a GPU the steps themselves may get slower"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find unrolled layers that miss cuDNN for it, or make the start too long."""
        layers = _unrolled(evidence)
        if not layers:
            return None
        tracing = evidence.startup.tracing_s if evidence.startup else None
        on_gpu = evidence.device.kind == "GPU"
        kept_off = on_gpu and step_may_matter(evidence)
        kept_off = kept_off and any(why_not(layer) == [UNROLL] for layer in layers)
        if not kept_off and not _start_matters(evidence, tracing):
            return None
        consequences = _consequences(kept_off, on_gpu, tracing, evidence)
        names = ", ".join(
            f"{layer.cls} {layer.name}{f' ({at(layer.where)})' if layer.where else ''}"
            for layer in layers
        )
        return self.finding(
            title="Recurrent layers are unrolled into one copy per time step",
            text=f"unroll=True on {names}.{consequences}",
            bound=None,
            bound_basis="not measured: the layer would have to be built anew",
            where=tuple(layer.where for layer in layers if layer.where),
            advice="Leave unroll out.",
            snippet=f"keras.layers.{layers[0].cls}(units)",
            equivalence=Equivalence.NUMERICS if kept_off else Equivalence.EXACT,
        )


def _unrolled(evidence: Evidence) -> list[LayerFacts]:
    return [layer for layer in evidence.model.recurrent if layer.config.get("unroll")]


def _start_matters(evidence: Evidence, tracing: float | None) -> bool:
    """Whether tracing is long: on a CPU, long against the whole planned run."""
    if tracing is None or tracing < LONG_TRACING_S:
        return False
    if evidence.device.kind == "GPU":
        return True
    share = _share_of_run(evidence, tracing)
    return share is not None and share >= RUN_SHARE


def _share_of_run(evidence: Evidence, tracing: float) -> float | None:
    loop = evidence.loop
    if loop.epochs is None or loop.epoch_steps is None:
        return None
    return tracing / (tracing + loop.epochs * loop.epoch_steps * evidence.times.real)


def _consequences(kept_off: bool, on_gpu: bool, tracing: float | None, evidence: Evidence) -> str:
    text = ""
    if kept_off:
        text += f" It is all that keeps an {' or '.join(CUDNN_LAYERS)} layer from using cuDNN."
    if tracing is not None and tracing >= LONG_TRACING_S:
        text += f" Tracing the step took {ms(tracing)}"
        share = _share_of_run(evidence, tracing)
        text += f", {percent(share)} of the planned run." if share is not None else "."
        if not on_gpu:
            text += " Without a GPU the steps themselves may get slower by up to a third."
    return text

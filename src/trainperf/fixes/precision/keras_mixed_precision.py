"""A model that computes in float32 on hardware that is faster in 16 bits."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.keras_source import keras_name
from trainperf.fixes.common.step import at_most, bound_if_saved, gpu_busy, step_can_matter
from trainperf.fixes.common.words import percent, times, worth
from trainperf.fixes.precision.torch_matmul_precision import capability, sixteen_bit_ratio
from trainperf.model import Equivalence, Evidence, Finding, ModelFacts
from trainperf.rewrite import Script

TENSOR_CORES_FROM = 7.0
"""Compute capability of Volta, the first with tensor cores (16-bit floats only)."""

BFLOAT16_FROM = 8.0
"""Compute capability of Ampere, the first with bfloat16 in its tensor cores."""

BUSY = 0.50
"""Utilisation of the GPU below which starting the kernels, not running them, takes time."""

USES_TENSOR_CORES = ("Dense", "Conv", "LSTM", "GRU", "RNN", "Attention")
"""Parts of the names of layers whose time goes into matrix products."""


class MixedPrecision(Fix):
    """Compute in 16 bits where it is safe, with Keras's mixed precision.

    ## Why it is slow
    The tensor cores of a GPU multiply 16-bit numbers two to eight times as fast as
    32-bit ones, and 16-bit activations take half the memory traffic. With the
    float32 policy this lies idle. CPUs with bfloat16 instructions gain as well.

    ## What changes
    Layers compute in bfloat16 (float16 before Ampere) and keep their weights in
    float32. Losses differ by rounding, a few parts in a thousand. `fit` scales the loss
    by itself where float16 needs it.

    ## When not to
    - The policy must be set before layers are built.
    - Give the last layer `dtype="float32"`, so that softmax and loss keep their precision.
    - A custom loop with float16 must scale the loss itself (`LossScaleOptimizer`).
    - Small layers, or sizes that are no multiple of 8, gain little.
    """

    category = "model"
    framework = "keras"
    usual = 1.5
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a float32 model on a GPU with tensor cores that the step keeps busy."""
        model = evidence.model
        policy = _policy_for(evidence)
        if policy is None or model.policy != "float32" or not _for_tensor_cores(model):
            return None
        gpu = evidence.device.first
        ratio = sixteen_bit_ratio(gpu)
        busy = gpu_busy(evidence)
        if ratio is None or (busy is not None and busy < BUSY):
            return None
        kernels = evidence.times.resident * (1.0 if busy is None else min(1.0, busy))
        bound = min(ratio, bound_if_saved(evidence, kernels * (1 - 1 / ratio)))
        if not worth(evidence, bound):
            return None
        seen = "" if busy is None else f", whose kernels ran {percent(busy)} of the step"
        short = policy.removeprefix("mixed_")
        return self._finding(
            evidence,
            policy,
            f"The model computes in float32 on a GPU that is faster in {short}",
            f"The policy is float32 on {gpu.name} (compute capability "
            f"{gpu.compute_capability}){seen}. Its peak in {short} is {times(ratio)} "
            "that in float32.",
            bound,
            f"peak {short} over peak float32 of this GPU",
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try a float32 model on any GPU with tensor cores, and on a CPU."""
        model = evidence.model
        cpu = evidence.device.kind == "CPU"
        policy = "mixed_bfloat16" if cpu else _policy_for(evidence)
        if policy is None or model.policy != "float32" or not _for_tensor_cores(model):
            return None
        if not step_can_matter(evidence):
            return None
        return self._finding(
            evidence,
            policy,
            "The model computes in float32",
            f"Its policy is float32 on {evidence.device.name}.",
            at_most(evidence, None if cpu else sixteen_bit_ratio(evidence.device.first)),
            "not measured: the model would have to be built anew",
        )

    def _finding(
        self,
        evidence: Evidence,
        policy: str,
        title: str,
        text: str,
        bound: float | None,
        basis: str,
    ) -> Finding:
        where = evidence.model.compile_where or evidence.loop.where
        own_scaling = policy == "mixed_float16" and evidence.loop.kind != "fit"
        module = "tf_keras" if evidence.framework.legacy_keras else "keras"
        return self.finding(
            title=title,
            text=text,
            bound=bound,
            bound_basis=basis,
            where=(where,) if where else (),
            advice=f"Set the policy {policy} before the layers are built; give the last layer "
            'dtype="float32".' + (f" {SCALING}" if own_scaling else ""),
            snippet=f'{module}.mixed_precision.set_global_policy("{policy}")',
            rewritable=where is not None and not own_scaling,
            data={"policy": policy, "module": module},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the policy after the imports, before any layer is built."""
        file = finding.where[0].file
        keras = keras_name(script, file, finding.data["module"])
        policy = finding.data["policy"]
        script.insert_after_imports(file, f'{keras}.mixed_precision.set_global_policy("{policy}")')


SCALING = "The loop must scale the loss: wrap the optimizer in LossScaleOptimizer."


def _policy_for(evidence: Evidence) -> str | None:
    """The mixed policy that suits the GPU in use, or None."""
    if evidence.device.kind != "GPU":
        return None
    known = capability(evidence.device.first)
    if known is None or known < TENSOR_CORES_FROM:
        return None
    return "mixed_bfloat16" if known >= BFLOAT16_FROM else "mixed_float16"


def _for_tensor_cores(model: ModelFacts) -> bool:
    return any(
        part in layer and count
        for layer, count in model.compute_layers.items()
        for part in USES_TENSOR_CORES
    )

"""What fast units for matrices want: fewer bits, and channels side by side."""

from __future__ import annotations

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import UNTRIED, Cause, Saving
from trainperf.fixes.common.keras_source import keras_name
from trainperf.fixes.common.step import at_most, gpu_busy, resident_seconds
from trainperf.fixes.common.words import probe_said, times
from trainperf.fixes.precision._peaks import (
    AMPERE,
    BUSY,
    OfPasses,
    capability,
    ratio_of,
    sixteen_bit_ratio,
    sixteen_bits,
)
from trainperf.fixes.rows import SetFlag
from trainperf.fixes.torch_step._source import model_target, outermost_loop
from trainperf.fixes.torch_step._step import (
    CONVOLUTIONS,
    DENSE,
    OfPass,
    count_of,
    kernel_seconds,
    process_site,
)
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.rewrite import Script

USES_TENSOR_CORES = ("Dense", "Conv", "LSTM", "GRU", "RNN", "Attention")
"""Parts of the names of layers whose time goes into matrix products."""


class KerasMixedPrecision(Fix):
    """Compute in 16 bits where it is safe, with Keras's mixed precision.

    Why slow: The tensor cores of a GPU multiply 16-bit numbers two to eight times as fast as
    32-bit ones, and 16-bit activations take half the memory traffic. CPUs with bfloat16
    instructions gain as well.
    Changes: Layers compute in bfloat16 (float16 before Ampere) and keep their weights in float32.
    Losses differ by rounding, a few parts in a thousand. `fit` scales the loss by itself where
    float16 needs it; a loop of one's own must (`LossScaleOptimizer`).
    When not:
    - The policy must be set before layers are built.
    - Give the last layer `dtype="float32"`, so that softmax and loss keep their precision.
    - Small layers, or sizes that are no multiple of 8, gain little.
    """

    framework = "keras"
    usual = 1.5
    rarely_all = True
    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a float32 model on a GPU with tensor cores, or on a CPU."""
        model, device = evidence.model, evidence.device
        kind, layers = sixteen_bits(device), model.compute_layers
        multiplies = any(
            part in layer and count for layer, count in layers.items() for part in USES_TENSOR_CORES
        )
        if not kind or model.policy != "float32" or not multiplies:
            return None
        ratio = None if device.kind == "CPU" else sixteen_bit_ratio(device.first)
        busy = gpu_busy(evidence)
        where = model.compile_where or evidence.loop.where
        own_scaling = kind == "float16" and evidence.loop.kind != "fit"
        advice = (
            f"Set the policy mixed_{kind} before the layers are built; give the last layer "
            'dtype="float32".'
        )
        if own_scaling:
            advice += " The loop must scale the loss: wrap the optimizer in LossScaleOptimizer."
        now = "float32" if kind == "float16" else "TF32"  # TensorFlow's own products of float32
        peak = f" Peak {kind} of this GPU is {times(ratio)} its peak in {now}." if ratio else ""
        return Cause(
            title="The model computes in float32",
            text=f"Its policy is float32 on {device.name}.{peak}",
            saves=Saving("a step that costs nothing", ratio=at_most(evidence), of="all")
            if ratio is None
            else Saving(
                f"peak {kind} over peak {now} of this GPU",
                lambda: resident_seconds(evidence) * (1 - 1 / ratio),
            ),
            where=(where,) if where else (),
            sure=ratio is not None and (busy is None or busy >= BUSY),
            advice=advice,
            snippet=f'keras.mixed_precision.set_global_policy("mixed_{kind}")',
            rewritable=where is not None and not own_scaling,
            data={"policy": f"mixed_{kind}"},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the policy after the imports, before any layer is built."""
        file = finding.where[0].file
        keras = keras_name(script, file)
        policy = finding.data["policy"]
        script.insert_after_imports(file, f'{keras}.mixed_precision.set_global_policy("{policy}")')


class TorchMatmulPrecision(OfPass):
    """Multiply float32 matrices in TF32: `torch.set_float32_matmul_precision("high")`.

    Why slow: From Ampere on, tensor cores take float32 numbers with a shorter fraction (TF32),
    many times as fast as the other cores take whole ones. PyTorch uses that for convolutions, but
    by default ("highest") not for matrix products.
    Changes: Matrix products round their factors to 10 bits of fraction instead of 23, and sum in
    float32. Weights and activations stay float32. Losses differ by rounding.
    When not:
    - Where a network is part of a calculation that needs all digits (solvers, physics).
    - Under autocast products are in 16 bits already, and gain nothing.
    """

    usual = 1.2
    probed_by = "matmul_precision"
    equivalence = Equivalence.NUMERICS
    edit = SetFlag(
        'torch.set_float32_matmul_precision("high")',
        unless=("set_float32_matmul_precision", "allow_tf32", "fp32_precision"),
    )

    def look(self, evidence: Evidence) -> Cause | None:
        """Find float32 matrix products on a GPU with TF32."""
        torch = evidence.torch
        model, gpu = torch.model, evidence.device.first
        dense = count_of(model, DENSE)
        if (capability(gpu) or 0.0) < AMPERE or torch.flag("matmul_precision") != "highest":
            return None
        if not dense or "float32" not in model.dtypes or (torch.calls and torch.calls.autocast):
            return None
        ratio, busy = ratio_of(gpu, ("tf32",), ("fp32",)), gpu_busy(evidence)
        saves: Saving = OfPasses(UNTRIED, probe="matmul_precision")
        probed = saves.probed(evidence) is not None
        keeps_busy = ratio is not None and (busy is None or busy >= BUSY)
        where = process_site(evidence)
        if not probed and ratio is not None:
            saves = Saving(
                "forward and backward at peak TF32 over peak float32 of this GPU",
                lambda: kernel_seconds(evidence) * (1 - 1 / ratio),
            )
        peak = f" Its peak in TF32 is {times(ratio)} that in float32." if ratio else ""
        said = probe_said(evidence, "matmul_precision", 'With "high" the same computation')
        return Cause(
            title="Matrix products run in full float32 on a GPU with TF32",
            text=f'{model.cls} is float32, its matrix products run with precision "highest" on '
            f"{gpu.name} (compute capability {gpu.compute_capability}).{said or peak}",
            saves=saves,
            sure=dense > count_of(model, CONVOLUTIONS) and (probed or keeps_busy),
            where=(where,) if where else (),
            snippet='torch.set_float32_matmul_precision("high")',
        )


IMAGES = ("Conv2d", "ConvTranspose2d")
"""Convolutions of images, for which the order of channels is a choice."""


class TorchChannelsLast(OfPass):
    """Keep images and convolution weights in memory with their channels last.

    Why slow: Tensors of images lie in memory as (batch, channels, height, width). The convolutions
    of tensor cores and of CPU libraries work on pixels with their channels side by side, so they
    turn their input around, or run a slower kernel.
    Changes: Model and images get `memory_format=torch.channels_last`. Shapes and indices stay as
    they are, only the order in memory changes. Sums are formed in another order.
    When not:
    - `view` on the output of a convolution may raise: use `reshape`.
    - Layers without a kernel for this order turn it back, at a cost.
    - Only images (four dimensions); `Conv3d` has `torch.channels_last_3d`.
    """

    usual = 1.3
    probed_by = "channels_last"
    equivalence = Equivalence.NUMERICS
    pays_with = ("torch_autocast",)  # kernels of half precision want this order, on CPUs as well

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a model that is called with images, and convolves them with channels first."""
        model = evidence.torch.model
        convolutions = count_of(model, IMAGES)
        if model.channels_last is not False or not model.image_input or not convolutions:
            return None
        where = tuple(site for site in (model.where, model.call) if site is not None)
        reached = model.where is not None or bool(model.name)
        name = model.name or "model"
        said = probe_said(evidence, "channels_last", "With the channels last the same computation")
        return Cause(
            title="Images lie in memory with their channels first",
            text=f"Convolution layers of {model.cls}: {convolutions}.{said}",
            saves=OfPasses(UNTRIED, probe="channels_last"),
            where=where,
            snippet=f"{name} = {name}.to(memory_format=torch.channels_last)\n"
            "images = images.to(memory_format=torch.channels_last)",
            data={"name": model.name},
            rewritable=model.call is not None and reached and all(site.exact for site in where),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Convert the model after it is built, and the images where it is called."""
        *built, called = finding.where
        images = script.argument(called, 0)
        if images is None:
            raise CannotRewrite("the call of the model does not write out its images")
        torch = script.module_name(called.file, "torch", called)
        converted = f".to(memory_format={torch}.channels_last)"
        try:
            if not built:
                raise CannotRewrite("where the model is built was not seen")
            name = model_target(script, built[0])
            there = script.module_name(built[0].file, "torch", built[0])
            line = f"{name} = {name}.to(memory_format={there}.channels_last)"
            script.insert_after(built[0], line)
        except CannotRewrite:
            name = finding.data.get("name", "")
            if not name:
                raise
            script.insert_before(outermost_loop(script, called), f"{name}{converted}")
        script.append_call(images, converted)

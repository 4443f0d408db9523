"""Convolutions on images whose channels come first."""

from __future__ import annotations

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.step import PROBE_LEAST, bound_by
from trainperf.fixes.common.words import ms, times, worth
from trainperf.fixes.torch_step._source import model_target, outermost_loop
from trainperf.fixes.torch_step._step import PROBED, count_of, pass_decides, taken_probe, to_try
from trainperf.model import Equivalence, Evidence, Finding, Probe, TorchModel
from trainperf.rewrite import Script

CONVOLUTIONS = ("Conv2d", "ConvTranspose2d")


class ChannelsLast(Fix):
    """Keep images and convolution weights in memory with their channels last.

    ## Why it is slow
    Tensors of images are (batch, channels, height, width), and lie so in memory. The
    convolutions of tensor cores and of CPU libraries work on pixels with their channels
    side by side, so they turn their input around, or run a slower kernel.

    ## What changes
    Model and images get `memory_format=torch.channels_last`. Shapes and indices stay as
    they are, only the order in memory changes. Sums are formed in another order, so
    rounding differs.

    ## When not to
    - `view` on the output of a convolution may raise: use `reshape`.
    - Layers without a kernel for this order turn it back, at a cost.
    - Only images (four dimensions); `Conv3d` has `torch.channels_last_3d`.
    """

    category = "model"
    usual = 1.3
    probed_by = "channels_last"
    equivalence = Equivalence.NUMERICS
    framework = "torch"
    pays_with = ("torch_autocast",)  # kernels of half precision want this order, on CPUs as well

    def decided_by(self, made: Probe, finding: Finding, evidence: Evidence) -> bool:
        """Return whether what the pass gives is what the step gives."""
        return pass_decides(evidence, made)

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a convolution net on images that ran faster with its channels last."""
        if not _applies(evidence.torch.model):
            return None
        measured = evidence.probe("channels_last")
        bound = bound_by(evidence, measured)
        if measured.low < PROBE_LEAST or not worth(evidence, bound):
            return None
        return self._finding(evidence, measured, bound, PROBED)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try any convolution net on images."""
        if not _applies(evidence.torch.model):
            return None
        measured = taken_probe(evidence, "channels_last")
        bound, basis = to_try(evidence, "channels_last")
        return self._finding(evidence, None if bound is None else measured, bound, basis)

    def _finding(
        self, evidence: Evidence, measured: Probe | None, bound: float | None, basis: str
    ) -> Finding:
        model = evidence.torch.model
        convolutions = count_of(model, CONVOLUTIONS)
        layers = "layer" if convolutions == 1 else "layers"
        text = f"{model.cls} has {convolutions} convolution {layers}."
        if measured is not None:
            text = (
                f"With the channels last, the same computation ran {times(measured.ratio)} as "
                f"fast in this run ({ms(measured.base_s)} → {ms(measured.candidate_s)}); {text}"
            )
        where = tuple(site for site in (model.where, model.call) if site is not None)
        reached = model.where is not None or bool(model.name)
        name = model.name or "model"
        return self.finding(
            title="Images lie in memory with their channels first",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=where,
            advice="Convert the model once and each batch of images.",
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
            head = outermost_loop(script, called)
            script.insert_before(head, f"{name}{converted}")
        script.append_call(images, converted)


def _applies(model: TorchModel) -> bool:
    """Whether it is called with images, and convolves them with its channels first."""
    first = model.channels_last is False and model.image_input
    return first and count_of(model, CONVOLUTIONS) > 0

"""Convolutions on images whose channels come first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes import Example, Fix
from trainperf.fixes._cases import GPU, probe
from trainperf.fixes._step import PROBE_LEAST
from trainperf.fixes._torch_cases import MODEL, torch_evidence
from trainperf.fixes._torch_source import model_target
from trainperf.fixes._torch_step import (
    PROBED,
    bound_by_probe,
    count_of,
)
from trainperf.fixes._words import ms, times, worth
from trainperf.model import Equivalence, Evidence, Finding, Missing

if TYPE_CHECKING:
    from trainperf.rewrite import Script

FASTER = {"channels_last": replace(probe(1.4), base_s=0.09)}


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
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    silent = [
        # it was not tried
        torch_evidence(),
        torch_evidence(probes={"channels_last": Missing("no time left")}),
        # no faster, or not surely so
        torch_evidence(probes={"channels_last": probe(0.8)}),
        torch_evidence(probes={"channels_last": probe(1.1, spread=0.1)}),
        # so already
        torch_evidence(model=replace(MODEL, channels_last=True), probes=FASTER),
        # no images, no convolutions
        torch_evidence(model=replace(MODEL, image_input=False), probes=FASTER),
        torch_evidence(model=replace(MODEL, modules={"Linear": 3}), probes=FASTER),
        # input-bound
        torch_evidence(probes=FASTER, resident=0.020, input=0.098),
    ]
    fires = [
        torch_evidence(probes=FASTER),
        torch_evidence(device=GPU, probes=FASTER),
        # the loop does not call the model itself
        torch_evidence(model=replace(MODEL, call=None, name=""), probes=FASTER),
        torch_evidence(probes=FASTER, loader=None, resident=None, input=None),
    ]
    examples = [
        Example(
            before="""\
import torch

model = ▸Net()◂.to(device)
for x, y in loader:
    loss = criterion(▸model(x)◂, y)
""",
            after="""\
import torch

model = Net().to(device)
model = model.to(memory_format=torch.channels_last)
for x, y in loader:
    loss = criterion(model(x.to(memory_format=torch.channels_last)), y)
""",
        ),
        Example(
            before="""\
import torch as t

self.net = ▸resnet()◂
out = ▸self.net(x.to(device) / 255, train=True)◂
""",
            after="""\
import torch as t

self.net = resnet()
self.net = self.net.to(memory_format=t.channels_last)
out = self.net((x.to(device) / 255).to(memory_format=t.channels_last), train=True)
""",
        ),
        Example(  # the images cannot be told from what else is passed
            before="import torch\n\nmodel = ▸Net()◂\nout = ▸model(*batch)◂\n",
            after="import torch\n\nmodel = Net()\nout = model(*batch)\n",
        ),
        Example(  # no name
            before="import torch\n\nfit(▸Net()◂)\nout = ▸model(x)◂\n",
            after="import torch\n\nfit(Net())\nout = model(x)\n",
        ),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a convolution net on images that ran faster with its channels last."""
        model = evidence.torch.model
        if model.channels_last is not False or not model.image_input:
            return None
        convolutions = count_of(model, ("Conv2d", "ConvTranspose2d"))
        if not convolutions:
            return None
        measured = evidence.probe("channels_last")
        bound = bound_by_probe(evidence, measured)
        if measured.low < PROBE_LEAST or not worth(evidence, bound):
            return None
        where = tuple(site for site in (model.where, model.call) if site is not None)
        layers = "layer" if convolutions == 1 else "layers"
        name = model.name or "model"
        return self.finding(
            title="Images lie in memory with their channels first",
            text=f"With the channels last, the same computation ran {times(measured.ratio)} as "
            f"fast in this run ({ms(measured.base_s)} → {ms(measured.candidate_s)}); "
            f"{model.cls} has {convolutions} convolution {layers}.",
            bound=bound,
            bound_basis=PROBED,
            where=where,
            advice="Convert the model once and each batch of images.",
            snippet=f"{name} = {name}.to(memory_format=torch.channels_last)\n"
            "images = images.to(memory_format=torch.channels_last)",
            rewritable=len(where) == 2 and all(site.exact for site in where),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Convert the model after it is built, and the images where it is called."""
        built, called = finding.where
        name = model_target(script, built)
        images = script.argument(called, 0)
        if images is None:
            raise CannotRewrite("the call of the model does not write out its images")
        here, there = (script.module_name(site.file, "torch", site) for site in finding.where)
        script.insert_after(built, f"{name} = {name}.to(memory_format={here}.channels_last)")
        script.append_call(images, f".to(memory_format={there}.channels_last)")

"""Convolutions on images whose channels come first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes import Example, Fix
from trainperf.fixes.common.cases import GPU, probe
from trainperf.fixes.common.step import PROBE_LEAST
from trainperf.fixes.common.torch_cases import MODEL, torch_evidence
from trainperf.fixes.common.words import ms, times, worth
from trainperf.fixes.torch_step._loop_source import outermost_loop
from trainperf.fixes.torch_step._source import model_target
from trainperf.fixes.torch_step._step import (
    PROBED,
    bound_by_probe,
    count_of,
    pass_decides,
    taken_probe,
    to_try,
)
from trainperf.model import Equivalence, Evidence, Finding, Missing, Probe, TorchModel

if TYPE_CHECKING:
    from trainperf.rewrite import Script

CONVOLUTIONS = ("Conv2d", "ConvTranspose2d")
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
    usual = 1.3
    probed_by = "channels_last"
    equivalence = Equivalence.NUMERICS
    framework = "torch"
    pays_with = ("torch_autocast",)  # kernels of half precision want this order, on CPUs as well

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
    tries_not = [
        # so already, or nobody can tell
        torch_evidence(model=replace(MODEL, channels_last=True)),
        torch_evidence(model=replace(MODEL, channels_last=None)),
        # no images, no convolutions
        torch_evidence(model=replace(MODEL, image_input=False)),
        torch_evidence(model=replace(MODEL, modules={"Linear": 3})),
        # a library calls the model
        torch_evidence(model=replace(MODEL, call=None, name="")),
        # nothing the step does matters
        torch_evidence(resident=0.002, input=0.099),
    ]
    tries = [
        torch_evidence(),
        torch_evidence(probes={"channels_last": Missing("no time left")}),
        torch_evidence(probes={"channels_last": probe(0.8)}),
        torch_evidence(probes={"channels_last": probe(1.1, spread=0.1)}),
        # built where nobody saw it
        torch_evidence(model=replace(MODEL, where=None)),
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
        Example(  # one of many architectures, wrapped later
            before="""\
import torch

def main(args):
    model = ▸models.__dict__[args.arch]()◂
    model = torch.nn.DataParallel(model)
    train(model, criterion)

def train(model, criterion):
    for i, (images, target) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        output = ▸model(images)◂
        loss = criterion(output, target)
""",
            after="""\
import torch

def main(args):
    model = models.__dict__[args.arch]()
    model = model.to(memory_format=torch.channels_last)
    model = torch.nn.DataParallel(model)
    train(model, criterion)

def train(model, criterion):
    for i, (images, target) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        output = model(images.to(memory_format=torch.channels_last))
        loss = criterion(output, target)
""",
        ),
        Example(  # built where it gets no name
            before="""\
import torch

def make():
    return ▸Net()◂

def train(net):
    for epoch in range(9):
        for x, y in loader:
            loss = criterion(▸net(x)◂, y)
""",
            after="""\
import torch

def make():
    return Net()

def train(net):
    net.to(memory_format=torch.channels_last)
    for epoch in range(9):
        for x, y in loader:
            loss = criterion(net(x.to(memory_format=torch.channels_last)), y)
""",
            data={"name": "net"},
        ),
        Example.untouched("import torch\n\nmodel = ▸Net()◂\nout = ▸model(*batch)◂\n"),
        Example.untouched("import torch\n\nfit(▸Net()◂)\nout = ▸model(x)◂\n"),
    ]

    def decided_by(self, made: Probe, finding: Finding, evidence: Evidence) -> bool:
        """Return whether what the pass gives is what the step gives."""
        return pass_decides(evidence, made)

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a convolution net on images that ran faster with its channels last."""
        if not _applies(evidence.torch.model):
            return None
        measured = evidence.probe("channels_last")
        bound = bound_by_probe(evidence, measured)
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

"""The cases of `torch_channels_last`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU, probe
from fixes.cases.common.torch_cases import MODEL, torch_evidence
from rewriting import Example
from trainperf.model import Missing

FASTER = {"channels_last": replace(probe(1.4), base_s=0.09)}

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

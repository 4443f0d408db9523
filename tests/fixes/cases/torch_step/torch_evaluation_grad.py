"""The cases of `torch_evaluation_grad`."""

from __future__ import annotations

from fixes.cases.common.cases import SITE
from fixes.cases.common.torch_cases import FORWARD_SITE, torch_evidence
from rewriting import Example
from trainperf.model import (
    BetweenEpochs,
    Evaluation,
    Loop,
    Outside,
    Site,
)

CALL = Site("train.py", 40, "validate", col=18, end_line=40, end_col=31)

RECORDED = Evaluation(
    where=CALL, loop=Site("train.py", 36, "validate"), grad=True, calls=20, seconds=0.01
)

EPOCHS = Loop("iterator", where=SITE, epoch_steps=100)

silent = [
    torch_evidence(),
    torch_evidence(torch={"evaluation": Evaluation(where=CALL, grad=False, calls=20)}),
    # short against an epoch
    torch_evidence(
        torch={"evaluation": RECORDED},
        loop=EPOCHS,
        between_epochs=BetweenEpochs(0.2, 2, 100, validation_s=0.1),
    ),
    torch_evidence(torch={"evaluation": Evaluation(where=None, grad=True, calls=0)}),
    # it comes seldom
    torch_evidence(
        torch={"evaluation": RECORDED}, outside_=Outside("evaluation", 50.0, 1000, 49.9)
    ),
]

fires = [
    torch_evidence(torch={"evaluation": RECORDED}),
    torch_evidence(torch={"evaluation": Evaluation(where=None, grad=True, calls=3)}),
    torch_evidence(
        torch={"evaluation": RECORDED},
        loop=EPOCHS,
        between_epochs=BetweenEpochs(4.0, 2, 100, validation_s=3.5),
    ),
    # it comes in the steps, now and then
    torch_evidence(torch={"evaluation": RECORDED}, outside_=Outside("evaluation", 5.0, 100, 4.5)),
    # the call is that of training, too
    torch_evidence(torch={"evaluation": Evaluation(where=FORWARD_SITE, grad=True, calls=3)}),
]

examples = [
    Example(
        before="""\
import torch


def validate(model, loader):
    model.eval()
    for x, y in loader:
        right(▸model(x)◂, y)
    model.train()
""",
        after="""\
import torch


@torch.no_grad()
def validate(model, loader):
    model.eval()
    for x, y in loader:
        right(model(x), y)
    model.train()
""",
        data={"trains_in": "main"},
    ),
    Example.untouched(  # forces are gradients
        "import torch\n\n\ndef validate(model, loader):\n    for x in loader:\n"
        "        energy = ▸model(x.requires_grad_())◂\n"
        "        show(torch.autograd.grad(energy.sum(), x))\n",
        {"trains_in": "main"},
    ),
    Example(  # in the function that trains
        before="""\
import torch


def main():
    for epoch in range(9):
        train_epoch(model)
        for x in valid:
            for y in x:
                show(▸model(y)◂)
""",
        after="""\
import torch


def main():
    for epoch in range(9):
        train_epoch(model)
        with torch.no_grad():
            for x in valid:
                for y in x:
                    show(model(y))
""",
        data={"trains_in": "train_epoch"},
    ),
    Example(  # on the module's level
        before="import torch\n\nfor x in valid:\n    show(▸model(x)◂)\n",
        after="import torch\n\nwith torch.no_grad():\n    for x in valid:\n"
        "        show(model(x))\n",
        data={"trains_in": "main"},
    ),
    Example.untouched(
        "import torch\n\n\ndef run(x):\n    return ▸model(x)◂\n", {"trains_in": "run"}
    ),
    Example.untouched(
        "import torch\n\n\ndef go(x):\n    update(x)\n    return ▸model(x)◂\n\n\n"
        "def update(x):\n    model(x).backward()\n",
        {"trains_in": "update"},
    ),
    Example.untouched(
        "import torch\n\n\ndef outputs(x):\n    yield ▸model(x)◂\n", {"trains_in": "main"}
    ),
]

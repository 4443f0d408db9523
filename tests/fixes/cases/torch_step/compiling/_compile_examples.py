"""Models that `torch_compile` compiles, and those that it leaves alone."""

from __future__ import annotations

from typing import Any

from rewriting import Example
from trainperf.fixes.torch_step.compiling._by_block import BY_BLOCK, COMPILED


def _each_block(*paths: str) -> dict[str, Any]:
    return {COMPILED: BY_BLOCK, "blocks": [{"path": path} for path in paths]}


EXAMPLES = [
    Example(
        before="from net import Net\n\nmodel = ▸Net(10)◂.to(device)\nrun(model)\n",
        after="from net import Net\n\nmodel = Net(10).to(device)\nmodel.compile()\nrun(model)\n",
        data={"cls": "Net"},
    ),
    Example(
        before="class Task:\n    def __init__(self):\n        self.net = ▸Net()◂\n",
        after="class Task:\n    def __init__(self):\n        self.net = Net()\n"
        "        self.net.compile()\n",
        data={"cls": "Net"},
    ),
    Example(  # its forward is PyTorch's
        before="import torch\nfrom torch import nn\n\n"
        "model = ▸nn.Sequential(nn.Linear(4, 4), nn.ReLU())◂\n",
        after="import torch\nfrom torch import nn\n\n"
        "model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())\n"
        "model = torch.compile(model)\n",
        data={"cls": "Sequential"},
    ),
    Example(  # so is this one's
        before="import torch\nfrom torch import nn\n\n\n"
        "class Stack(nn.Sequential):\n    pass\n\n\nmodel = ▸Stack(nn.ReLU())◂\n",
        after="import torch\nfrom torch import nn\n\n\n"
        "class Stack(nn.Sequential):\n    pass\n\n\nmodel = Stack(nn.ReLU())\n"
        "model = torch.compile(model)\n",
        data={"cls": "Stack"},
    ),
    Example(
        before="model = ▸Net(10)◂.to(device)\nrun(model)\n",
        after="model = Net(10).to(device)\nfor block in model.layers:\n    block.compile()\n"
        "run(model)\n",
        data={"cls": "Net", **_each_block(".layers")},
    ),
    Example(  # an encoder and a decoder; the name is taken
        before="class Task:\n    def __init__(self):\n        self.net = ▸Net()◂\n\n"
        "    def blocks(self):\n        return [block for block in self.net.encoder]\n",
        after="class Task:\n    def __init__(self):\n        self.net = Net()\n"
        "        for each_block in self.net.encoder:\n            each_block.compile()\n"
        "        for each_block in self.net[0].h:\n            each_block.compile()\n\n"
        "    def blocks(self):\n        return [block for block in self.net.encoder]\n",
        data={"cls": "Net", **_each_block(".encoder", "[0].h")},
    ),
    Example(  # nothing is wrapped: the names in its checkpoints stay
        before="from torch import nn\n\nmodel = ▸nn.Sequential(*make())◂\n"
        "save(model.state_dict())\n",
        after="from torch import nn\n\nmodel = nn.Sequential(*make())\n"
        "for block in model:\n    block.compile()\nsave(model.state_dict())\n",
        data={"cls": "Sequential", **_each_block("")},
    ),
    Example.untouched("trainer.fit(▸Net()◂)\n", {"cls": "Net", **_each_block(".layers")}),
    Example.untouched(
        "import torch\nfrom torch import nn\n\nmodel = ▸nn.Sequential(nn.ReLU())◂\n"
        "torch.save(model.state_dict(), path)\n",
        {"cls": "Sequential"},
    ),
    Example.untouched("trainer.fit(▸Net()◂)\n", {"cls": "Net"}),
    Example.untouched("weights = list(▸Net()◂.parameters())\n", {"cls": "Net"}),
]

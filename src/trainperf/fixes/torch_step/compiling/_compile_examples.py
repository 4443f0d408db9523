"""Models that `torch_compile` compiles, and those that it leaves alone."""

from __future__ import annotations

from trainperf.fixes import Example

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
    Example.untouched(
        "import torch\nfrom torch import nn\n\nmodel = ▸nn.Sequential(nn.ReLU())◂\n"
        "torch.save(model.state_dict(), path)\n",
        {"cls": "Sequential"},
    ),
    Example.untouched("trainer.fit(▸Net()◂)\n", {"cls": "Net"}),
    Example.untouched("weights = list(▸Net()◂.parameters())\n", {"cls": "Net"}),
]

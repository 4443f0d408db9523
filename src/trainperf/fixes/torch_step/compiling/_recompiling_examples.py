"""Calls that compile for fixed shapes, before and after; what cannot be edited is left alone."""

from __future__ import annotations

from trainperf.fixes import Example

EXAMPLES = [
    Example(
        before="import torch\n\nmodel = ▸torch.compile(Net(), dynamic=False)◂\n",
        after="import torch\n\nmodel = torch.compile(Net(), dynamic=True)\n",
    ),
    Example(
        before='import torch\n\nmodel = ▸torch.compile(Net(), mode="max-autotune")◂\n',
        after='import torch\n\nmodel = torch.compile(Net(), mode="max-autotune", dynamic=True)\n',
    ),
    Example(
        before="for block in model.blocks:\n    ▸block.compile()◂\n",
        after="for block in model.blocks:\n    block.compile(dynamic=True)\n",
    ),
    Example(
        before="import torch\n\n\n@▸torch.compile(fullgraph=True)◂\ndef loss_of(x, y):\n"
        "    return (x - y).square().mean()\n",
        after="import torch\n\n\n@torch.compile(fullgraph=True, dynamic=True)\ndef loss_of(x, y):\n"
        "    return (x - y).square().mean()\n",
    ),
    Example(
        before="import torch as t\n\n\n@▸t.compile◂\ndef loss_of(x, y):\n"
        "    return (x - y).square().mean()\n",
        after="import torch as t\n\n\n@t.compile(dynamic=True)\ndef loss_of(x, y):\n"
        "    return (x - y).square().mean()\n",
    ),
    Example.untouched("import torch\n\nmodel = ▸torch.compile(Net(), **options)◂\n"),
]

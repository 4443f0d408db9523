"""Calls that compile for fixed shapes, before and after; what cannot be edited is left alone."""

from __future__ import annotations

from rewriting import Example

COLLATES = "from transformers import DataCollatorWithPadding\n\ncollate = "
FEW = {
    "code": "for a few lengths",
    "collator": "DataCollatorWithPadding",
    "multiple": 32,
    "place": {"file": "train.py", "line": 4, "function": ""},
}

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
    Example(
        before=COLLATES + "DataCollatorWithPadding(tokenizer)\n▸trainer.train()◂\n",
        after=COLLATES
        + "DataCollatorWithPadding(tokenizer, pad_to_multiple_of=32)\ntrainer.train()\n",
        data=FEW,
    ),
    Example.untouched(
        COLLATES + "DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8)\n▸trainer.train()◂\n",
        FEW,
    ),
    Example.untouched("collate = make()\n▸trainer.train()◂\n", FEW),
    Example.untouched("import torch\n\nmodel = ▸torch.compile(Net(), **options)◂\n"),
]

"""Loaders of ranks before and after they read a part of the data each; some are left alone."""

from __future__ import annotations

from typing import Any

from rewriting import Example


def _loop(line: int, function: str = "") -> dict[str, Any]:
    place = {"file": "train.py", "line": line, "function": function}
    return {"loop": {**place, "col": 0, "end_line": 0, "end_col": 0}}


def _alone(text: str, line: int, function: str = "") -> Example:
    return Example.untouched(text, _loop(line, function))


EXAMPLES = [
    Example(
        before="""\
import torch
from torch.utils.data import DataLoader

loader = ▸DataLoader(train_set, batch_size=32, shuffle=True, num_workers=4)◂
for epoch in range(epochs):
    model.train()
    for x, y in loader:
        step(x, y)
""",
        after="""\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(train_set, batch_size=32, sampler=torch.utils.data.DistributedSampler(train_set), num_workers=4)
for epoch in range(epochs):
    loader.sampler.set_epoch(epoch)
    model.train()
    for x, y in loader:
        step(x, y)
""",  # noqa: E501
        data=_loop(7),
    ),
    Example(  # in order, which no epoch changes
        before="import torch\n\nloader = ▸torch.utils.data.DataLoader(data, 8)◂\n"
        "for x in loader:\n    step(x)\n",
        after="import torch\n\nloader = torch.utils.data.DataLoader("
        "data, 8, sampler=torch.utils.data.DistributedSampler(data, shuffle=False))\n"
        "for x in loader:\n    step(x)\n",
        data=_loop(4),
    ),
    Example(  # a function for each epoch
        before="""\
import torch
from torch.utils.data import DataLoader


def train_epoch(model, batches, optimizer):
    for x in tqdm(batches):
        step(x)


def main(args):
    loader = ▸DataLoader(args.set, 32, True)◂
    for epoch in range(1, args.epochs + 1):
        train_epoch(model, loader, optimizer)
""",
        after="""\
import torch
from torch.utils.data import DataLoader


def train_epoch(model, batches, optimizer):
    for x in tqdm(batches):
        step(x)


def main(args):
    loader = DataLoader(args.set, 32, False, sampler=torch.utils.data.DistributedSampler(args.set))
    for epoch in range(1, args.epochs + 1):
        loader.sampler.set_epoch(epoch)
        train_epoch(model, loader, optimizer)
""",
        data=_loop(6, "train_epoch"),
    ),
    # a sampler of the user's
    _alone(
        "import torch\n\nloader = ▸DataLoader(data, 8, sampler=EveryNth(data))◂\n"
        "for x in loader:\n    step(x)\n",
        4,
    ),
    # an order that cannot be told
    _alone(
        "import torch\n\nloader = ▸DataLoader(data, 8, shuffle=args.shuffle)◂\n"
        "for x in loader:\n    step(x)\n",
        4,
    ),
    # built in each epoch, or put into something
    _alone(
        "import torch\n\nfor epoch in range(9):\n"
        "    loader = ▸torch.utils.data.DataLoader(data, shuffle=True)◂\n"
        "    for x in loader:\n        step(x)\n",
        5,
    ),
    _alone(
        "import torch\n\nloader = ▸torch.utils.data.DataLoader(data, shuffle=True)◂\n"
        "loader = ahead(loader)\nfor epoch in range(9):\n    for x in loader:\n        step(x)\n",
        6,
    ),
    # the loop over epochs counts nothing, and each would have the same order
    _alone(
        "import torch\n\nloader = ▸DataLoader(data, 8, shuffle=True)◂\n"
        "while True:\n    for x in loader:\n        step(x)\n",
        5,
    ),
    # a dataset without a name gets one
    Example(
        before="import torch\n\nloader = ▸DataLoader(Images(path), 8)◂\n"
        "for x in loader:\n    step(x)\n",
        after="import torch\n\nsamples = Images(path)\nloader = DataLoader(samples, 8, "
        "sampler=torch.utils.data.DistributedSampler(samples, shuffle=False))\n"
        "for x in loader:\n    step(x)\n",
        data=_loop(4),
    ),
]

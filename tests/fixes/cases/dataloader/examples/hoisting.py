"""Loops over epochs before and after their loader is built once; some are left alone."""

from __future__ import annotations

from typing import Any

from rewriting import Example

KEPT: dict[str, Any] = {"workers": 2, "loop": None}


def _alone(text: str) -> Example:
    return Example.untouched(text, KEPT)


def _each_epoch(statement: str) -> Example:
    return _alone(f"for epoch in range(3):\n    {statement}\n    train(loader)\n")


EXAMPLES = [
    Example(
        before="""\
for epoch in range(epochs):
    loader = ▸DataLoader(dataset, batch_size=32, shuffle=True, num_workers=2)◂
    for batch in loader:
        train_step(batch)
""",
        after="""\
loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)
for epoch in range(epochs):
    for batch in loader:
        train_step(batch)
""",
        data=KEPT,
    ),
    Example(  # over several lines, the number of workers by an option
        before="""\
def main(args):
    dataset = Images(args.data)
    for epoch in range(args.epochs):
        # a fresh order
        train_loader = ▸torch.utils.data.DataLoader(
            dataset,
            batch_size=args.batch_size,
            num_workers=args.workers,
        )◂
        train(model, train_loader)
""",
        after="""\
def main(args):
    dataset = Images(args.data)
    train_loader = torch.utils.data.DataLoader(
        dataset,
        batch_size=args.batch_size,
        num_workers=args.workers,
        persistent_workers=args.workers > 0,
    )
    for epoch in range(args.epochs):
        # a fresh order
        train(model, train_loader)
""",
        data=KEPT,
    ),
    Example(  # without a name
        before="""\
for epoch in range(3):
    for i, (x, y) in enumerate(▸DataLoader(data, 16, num_workers=2)◂):
        step(x, y)
""",
        after="""\
loader = DataLoader(data, 16, num_workers=2, persistent_workers=True)
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        step(x, y)
""",
        data=KEPT,
    ),
    Example(  # by a function of the script
        before="""\
from torch.utils.data import DataLoader


def make_loader(data, size):
    return ▸DataLoader(data, batch_size=size, num_workers=2)◂


for epoch in range(3):
    loader = make_loader(data, 16)
    train(loader)
""",
        after="""\
from torch.utils.data import DataLoader


def make_loader(data, size):
    return DataLoader(data, batch_size=size, num_workers=2, persistent_workers=True)


loader = make_loader(data, 16)
for epoch in range(3):
    train(loader)
""",
        data=KEPT,
    ),
    # another part of the data in each epoch
    _alone(
        "for epoch in range(3):\n    loader = ▸DataLoader(parts[epoch], num_workers=2)◂\n"
        "    train(loader)\n"
    ),
    _alone(
        "for epoch in range(3):\n    data.shuffle()\n    loader = ▸DataLoader(data)◂\n"
        "    train(loader)\n"
    ),
    _alone(
        "for epoch in range(3):\n    data.size = 32 + epoch\n    loader = ▸DataLoader(data)◂\n"
        "    train(loader)\n"
    ),
    # mixed anew, by the loop itself or by a function of the file
    _alone(
        "import random\n\nfor epoch in range(3):\n    random.shuffle(data)\n"
        "    loader = ▸DataLoader(list(data), num_workers=2)◂\n    train(loader)\n"
    ),
    _alone(
        "def play(games):\n    games.append(model.play())\n\n\nwhile True:\n    play(seen)\n"
        "    loader = ▸DataLoader(seen, num_workers=2)◂\n    train(loader)\n"
    ),
    # labelled anew by who knows what; its length may be asked for
    _alone(
        "from labels import relabel\n\nfor epoch in range(3):\n    relabel(model, data)\n"
        "    loader = ▸DataLoader(data, num_workers=2)◂\n    train(loader)\n"
    ),
    Example(
        before="for epoch in range(3):\n    loader = ▸DataLoader(data, 8)◂\n"
        "    train(loader)\n    print(epoch, len(data))\n",
        after="loader = DataLoader(data, 8)\nfor epoch in range(3):\n"
        "    train(loader)\n    print(epoch, len(data))\n",
        data={"workers": 0, "loop": None},
    ),
    # used up after one epoch; given the epoch; one of two; beside what changes
    _each_epoch("loader = iter(▸DataLoader(data, num_workers=2)◂)"),
    _each_epoch("loader = mixed(▸DataLoader(data, num_workers=2)◂, epoch)"),
    _each_epoch("loader = ▸DataLoader(easy, num_workers=2)◂ if epoch < 2 else hard"),
    _each_epoch("loader, rate = ▸DataLoader(data, num_workers=2)◂, 0.1**epoch"),
    # each epoch in the same order
    _each_epoch("loader = ▸DataLoader(data, num_workers=2, generator=torch.Generator())◂"),
    # a random part
    _alone(
        "for epoch in range(3):\n    loader = ▸DataLoader(random_part(data))◂\n    train(loader)\n"
    ),
    # under a condition
    _alone(
        "for epoch in range(3):\n    if epoch == 2:\n        loader = ▸DataLoader(data)◂\n"
        "    train(loader)\n"
    ),
    # each fold trains its own model
    _alone(
        "import torch\n\nfor fold in range(3):\n    opt = torch.optim.SGD(net().parameters())\n"
        "    loader = ▸DataLoader(data)◂\n    train(loader)\n"
    ),
    _alone(
        "import torch\n\nfor fold in range(3):\n    opt = torch.optim.SGD(net().parameters())\n"
        "    loader = ▸DataLoader(data, num_workers=2)◂\n    for x in loader:\n"
        "        torch.nn.functional.cross_entropy(net(x), x).backward()\n"
    ),
    # in a function that is called for each epoch, and ends with it
    _alone(
        "def train(data):\n    loader = ▸DataLoader(data)◂\n    for batch in loader:\n"
        "        step(batch)\n\n\nfor epoch in range(3):\n    train(data)\n"
    ),
]

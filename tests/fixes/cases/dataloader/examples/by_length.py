"""Loaders before and after they batch by length; some are left alone."""

from __future__ import annotations

from typing import Any

from rewriting import Example
from trainperf.fixes.dataloader import torch_length_batches

WORDS: dict[str, Any] = {
    "length": {"at": 0, "how": "len", "value": 0, "features": False},
    "place": None,
}
PADDED = {"at": "ids", "how": "given", "value": 1, "features": False}

SAMPLER = torch_length_batches.SAMPLER.format(torch="torch", name="ByLength")


def _alone(text: str) -> Example:
    return Example.untouched(text, WORDS)


EXAMPLES = [
    Example(
        before="import torch\n\nloader = ▸DataLoader(reviews, batch_size=32, shuffle=True, "
        "collate_fn=pad)◂\n",
        after=f"import torch\n\n\n{SAMPLER}\n\nloader = DataLoader(reviews, batch_sampler=ByLength("
        "[len(item[0]) for item in map(reviews.__getitem__, range(len(reviews)))], 32), "
        "collate_fn=pad)\n",
        data=WORDS,
    ),
    Example(  # by place; padded already
        before="import torch\n\nloader = ▸DataLoader(self.train, size, True, drop_last=True)◂\n",
        after=f"import torch\n\n\n{SAMPLER}\n\nloader = DataLoader(self.train, 1, False, "
        "batch_sampler=ByLength([int((item['ids'] != 1).sum()) for item in "
        "map(self.train.__getitem__, range(len(self.train)))], size, True))\n",
        data={**WORDS, "length": PADDED},
    ),
    # whose batch size is asked for; built, and its items read, again and again
    _alone(
        "import torch\n\nloader = ▸DataLoader(reviews, 32, shuffle=True)◂\n"
        "steps = len(reviews) // loader.batch_size\n"
    ),
    _alone(
        "import torch\n\ntrain_dl = ▸DataLoader(reviews, 32, shuffle=True)◂\n"
        "steps = len(reviews) // train_dl.batch_size\n"
    ),
    _alone(
        "import torch\n\nfor epoch in range(9):\n"
        "    train(▸DataLoader(reviews, 32, shuffle=True)◂)\n"
    ),
    _alone(
        "import torch\n\n\ndef batches():\n    return ▸DataLoader(reviews, 32, shuffle=True)◂\n"
        "\n\nfor epoch in range(9):\n    train(batches())\n"
    ),
    # a dataset that has no name gets one
    Example(
        before="import torch\n\nloader = ▸DataLoader(load(path), 32, shuffle=True)◂\n",
        after=f"import torch\n\n\n{SAMPLER}\n\nsamples = load(path)\n"
        "loader = DataLoader(samples, 1, batch_sampler=ByLength([len(item[0]) for item in "
        "map(samples.__getitem__, "
        "range(len(samples)))], 32))\n",
        data=WORDS,
    ),
    # in order; with a sampler
    _alone("import torch\n\nloader = ▸DataLoader(reviews, 32, collate_fn=pad)◂\n"),
    _alone("import torch\n\nloader = ▸DataLoader(reviews, shuffle=mix, collate_fn=pad)◂\n"),
]

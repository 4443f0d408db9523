"""Loaders before and after they batch by length; some are left alone."""

from __future__ import annotations

from typing import Any

from trainperf.fixes import Example

WORDS: dict[str, Any] = {
    "length": {"at": 0, "how": "len", "value": 0, "features": False},
    "place": None,
}
PADDED = {"at": "ids", "how": "given", "value": 1, "features": False}

SAMPLER = '''\
class ByLength(torch.utils.data.Sampler):
    """Batches of samples of about the same length, in another order in each epoch."""

    def __init__(self, lengths, batch_size, drop_last=False):
        self.lengths, self.batch_size, self.drop_last = lengths, batch_size, drop_last

    def __len__(self):
        whole, rest = divmod(len(self.lengths), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self):
        order, size = torch.randperm(len(self.lengths)).tolist(), self.batch_size
        for start in range(0, len(order), 50 * size):
            part = slice(start, start + 50 * size)
            order[part] = sorted(order[part], key=self.lengths.__getitem__)
        starts = range(0, len(order) - (size - 1 if self.drop_last else 0), size)
        for at in torch.randperm(len(starts)).tolist():
            yield order[starts[at] : starts[at] + size]
'''


def _alone(text: str) -> Example:
    return Example(before=text, after=text.replace("▸", "").replace("◂", ""), data=WORDS)


EXAMPLES = [
    Example(
        before="import torch\n\nloader = ▸DataLoader(reviews, batch_size=32, shuffle=True, "
        "collate_fn=pad)◂\n",
        after=f"import torch\n\n{SAMPLER}\nloader = DataLoader(reviews, batch_sampler=ByLength("
        "[len(item[0]) for item in map(reviews.__getitem__, range(len(reviews)))], 32), "
        "collate_fn=pad)\n",
        data=WORDS,
    ),
    Example(  # by place; padded already
        before="import torch\n\nloader = ▸DataLoader(self.train, size, True, drop_last=True)◂\n",
        after=f"import torch\n\n{SAMPLER}\nloader = DataLoader(self.train, 1, False, "
        "batch_sampler=ByLength([int((item['ids'] != 1).sum()) for item in "
        "map(self.train.__getitem__, range(len(self.train)))], size, True))\n",
        data={**WORDS, "length": PADDED},
    ),
    # in order; with a sampler; a dataset that has no name
    _alone("import torch\n\nloader = ▸DataLoader(reviews, 32, collate_fn=pad)◂\n"),
    _alone("import torch\n\nloader = ▸DataLoader(reviews, shuffle=mix, collate_fn=pad)◂\n"),
    _alone("import torch\n\nloader = ▸DataLoader(load(path), 32, shuffle=True)◂\n"),
]

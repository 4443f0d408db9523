"""Collate functions before and after they go through arrays; some are left alone."""

from __future__ import annotations

from rewriting import Example


def _filled(row: str, made: str = "torch.zeros(len(batch), 8)", behind: str = "pass") -> Example:
    return Example.untouched(
        f"""\
import torch


▸def collate(batch):◂
    out = {made}
    for i, words in enumerate(batch):
        row = {row}
        for j, x in enumerate(row):
            out[i, j] = x
        {behind}
    return out
"""
    )


EXAMPLES = [
    Example(
        before="""\
import torch


▸def collate(batch):◂
    rows = torch.tensor([sample["row"] for sample in batch], dtype=torch.float32)
    labels = torch.LongTensor([sample["tags"] for sample in batch])
    return rows, labels
""",
        after="""\
import torch
import numpy as np


def collate(batch):
    rows = torch.tensor(np.array([sample["row"] for sample in batch], dtype=np.float32))
    labels = torch.tensor(np.array([sample["tags"] for sample in batch], dtype=np.int64))
    return rows, labels
""",
    ),
    Example(  # rows filled element by element
        before="""\
import torch


▸def collate(batch):◂
    longest = max(len(tokens) for tokens, _ in batch)
    out = torch.zeros(len(batch), longest, dtype=torch.long)
    for i, (tokens, _) in enumerate(batch):
        for j, token in enumerate(tokens):
            out[i, j] = token
    return out
""",
        after="""\
import torch


def collate(batch):
    longest = max(len(tokens) for tokens, _ in batch)
    out = torch.zeros(len(batch), longest, dtype=torch.long)
    for i, (tokens, _) in enumerate(batch):
        out[i, :len(tokens)] = torch.as_tensor(tokens, dtype=out.dtype)
    return out
""",
    ),
    # one number for each sample
    Example.untouched(
        "import torch\n\n\n▸def collate(batch):◂\n"
        "    return torch.tensor([len(one) for one in batch], dtype=torch.long)\n"
    ),
    Example(  # the dtypes that the run saw
        before="""\
import numpy as np
import torch


▸def collate(batch):◂
    rows, tags = [], []
    for items, tag in batch:
        row = [0.0] * 1400
        for item in items:
            row[item] = 1.0
        rows.append(row)
        tags.append(tag)
    tags = torch.tensor(tags)
    return torch.tensor(rows), tags
""",
        after="""\
import numpy as np
import torch


def collate(batch):
    rows, tags = [], []
    for items, tag in batch:
        row = [0.0] * 1400
        for item in items:
            row[item] = 1.0
        rows.append(row)
        tags.append(tag)
    tags = torch.tensor(tags)
    return torch.tensor(np.array(rows, dtype=np.float32)), tags
""",
        data={"parts": ["float32", "int64"]},
    ),
    # so many tensors, and no telling which; a dtype that NumPy has not; it returns twice
    *(
        Example.untouched(
            "import torch\n\n\n▸def collate(batch):◂\n"
            f"    rows = [row for row, _ in batch]\n{more}    return torch.tensor(rows)\n",
            data={"parts": parts},
        )
        for more, parts in (
            ("", ["float32", "int64"]),
            ("", ["bfloat16"]),
            ("    if not rows:\n        return None\n", ["float32"]),
        )
    ),
    # a list of Python's numbers would have another dtype
    Example.untouched(
        "import torch\n\n\n▸def collate(batch):◂\n"
        "    return torch.tensor([row for row, _ in batch])\n"
    ),
    # each element is worked on
    Example.untouched(
        """\
import torch


▸def collate(batch):◂
    out = torch.zeros(len(batch), 8)
    for i, words in enumerate(batch):
        for j, word in enumerate(words):
            out[i, j] = weights[word]
    return out
"""
    ),
    # gone through once; without an order; a row of vectors, or of who knows what
    _filled("(number[word] for word in words)"),
    _filled("{number[word] for word in words}"),
    _filled("words.split()", made="torch.zeros(len(batch), 8, 300)"),
    _filled("words.split()", made="torch.zeros(shape)"),
    # its length is what the loop ended with
    _filled("words.split()", behind="lengths.append(j + 1)"),
]

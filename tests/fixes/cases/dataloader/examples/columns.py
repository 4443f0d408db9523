"""Datasets before and after they take rows of a table; some are left alone."""

from __future__ import annotations

from rewriting import Example

TABLES = {"tables": ["table"], "columns": []}
COLUMNS = {"tables": [], "columns": ["texts", "labels"]}


def _items(body: str, held: str = "self.table = table") -> str:
    return f"""\
class Reviews(Dataset):
    def __init__(self, table):
        {held}

    ▸def __getitem__(self, index):◂
        {body}
"""


def _after(body: str, held: str = "self.table = table") -> str:
    return _items(body, held).replace("▸", "").replace("◂", "")


EXAMPLES = [
    Example(
        before=_items('return encode(self.table["text"][index])'),
        after=_after('return encode(self.table[index]["text"])'),
        data=TABLES,
    ),
    Example(
        before=_items(
            'label = self.table["label"][index]\n'
            "        return torch.tensor(self.table['ids'][index]), label"
        ),
        after=_after(
            "row = self.table[index]\n"
            '        label = row["label"]\n'
            "        return torch.tensor(row['ids']), label"
        ),
        data=TABLES,
    ),
    Example(  # the dataset keeps the columns
        before=_items(
            "return self.texts[index], self.labels[index]",
            'self.texts = table["text"]\n        self.labels = table["label"]',
        ),
        after=_after(
            "return self.texts[index], self.labels[index]",
            'self.texts = list(table["text"])\n        self.labels = list(table["label"])',
        ),
        data=COLUMNS,
    ),
    # not a table; several elements; several rows; another index by then
    Example.untouched(_items('return self.encodings["ids"][index]'), TABLES),
    Example.untouched(_items('return self.table["ids"][index : index + 2]'), TABLES),
    Example.untouched(
        _items('return self.table["ids"][index], self.table["ids"][index + 1]'), TABLES
    ),
    Example.untouched(
        _items('index = self.order[index]\n        return self.table["ids"][index]'), TABLES
    ),
]

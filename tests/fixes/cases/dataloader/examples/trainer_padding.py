"""A `Trainer` before and after its batches are padded to their own longest; some are left alone."""

from __future__ import annotations

from typing import Any

from rewriting import Example

PADDED = ("input_ids", "token_type_ids", "attention_mask")


def _place(*along: str) -> dict[str, Any]:
    place = {"kind": "dict", "at": "input_ids", "along": along, "value": 0, "features": False}
    return {"place": place, "library": "transformers"}


HEAD = """\
import torch
import transformers
from transformers import AutoTokenizer, Trainer

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
"""

WRAPPED = '''\
def to_longest({given}samples):
    """Collate the samples, and cut the padding behind the longest of them."""
    batch = {collate}(samples)
    given = batch['input_ids'] != 0
    steps = torch.arange(1, given.shape[1] + 1, device=given.device)
    longest = max(1, int((given * steps).max()))
    for each in {along}:
        batch[each] = batch[each][:, :longest].contiguous()
    return batch
'''


def tokenized(padding: str) -> str:
    return f"""{HEAD}

def tokenize(rows):
    return tokenizer(rows["text"], truncation=True, padding={padding}, max_length=256)


train = load().map(tokenize, batched=True)
"""


EXAMPLES = [
    Example(
        before=tokenized('"max_length"')
        + "trainer = Trainer(model, args, train_dataset=train)\n▸trainer.train()◂\n",
        after=tokenized("False") + "trainer = Trainer(model, args, train_dataset=train, "
        "data_collator=transformers.DataCollatorWithPadding(tokenizer))\ntrainer.train()\n",
        data=_place(*PADDED),
    ),
    Example(  # labels of each token are padded as well: the batch is cut
        before=tokenized('"max_length"')
        + "trainer = Trainer(model, args, train_dataset=train)\n▸trainer.train()◂\n",
        after=tokenized('"max_length"').replace(
            "\n\ntokenizer =",
            "\n\n\n"
            + WRAPPED.format(
                given="",
                collate="transformers.default_data_collator",
                along=("input_ids", "labels"),
            )
            + "\n\ntokenizer =",
        )
        + "trainer = Trainer(model, args, train_dataset=train, data_collator=to_longest)\n"
        "trainer.train()\n",
        data=_place("input_ids", "labels"),
    ),
    Example(  # padded elsewhere, in a trainer of one's own, which has a collator
        before="import torch\nimport transformers\nimport functools\n\n\n"
        "class Weighted(transformers.Trainer):\n    pass\n\n\n"
        "trainer = Weighted(model, data_collator=collate)\n▸trainer.train()◂\n",
        after="import torch\nimport transformers\nimport functools\n\n\n"
        + WRAPPED.format(given="collate, ", collate="collate", along=("input_ids", "labels"))
        + "\n\nclass Weighted(transformers.Trainer):\n    pass\n\n\n"
        "trainer = Weighted(model, "
        "data_collator=functools.partial(to_longest, collate))\ntrainer.train()\n",
        data=_place("input_ids", "labels"),
    ),
    # which of two it is, or whether it is one, cannot be seen
    Example.untouched(
        HEAD + "one, other = Trainer(model), Trainer(model)\n▸one.train()◂\n", _place(*PADDED)
    ),
    Example.untouched("trainer = make()\n▸trainer.train()◂\n", _place(*PADDED)),
    Example.untouched(HEAD + "trainer = Trainer(**how)\n▸trainer.train()◂\n", _place(*PADDED)),
]

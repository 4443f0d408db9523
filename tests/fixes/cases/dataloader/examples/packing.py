"""A `Trainer` before and after the sequences of a batch stand in one row; some are left alone."""

from __future__ import annotations

from fixes.cases.dataloader.examples.trainer_padding import HEAD, tokenized
from rewriting import Example

PADS, PADDED = {"padded": False}, {"padded": True}
MODEL = "collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)\n"

EXAMPLES = [
    Example(
        before=HEAD + MODEL + "trainer = Trainer(model, args, data_collator=collator)\n"
        "▸trainer.train()◂\n",
        after=HEAD + MODEL + "trainer = Trainer(model, args, "
        "data_collator=transformers.DataCollatorWithFlattening())\ntrainer.train()\n",
        data=PADS,
    ),
    Example(  # none is given: that of a trainer with a tokenizer pads
        before=HEAD + "trainer = Trainer(\n    model,\n    args,\n    train_dataset=train,\n"
        "    processing_class=tokenizer,\n)\n▸trainer.train()◂\n",
        after=HEAD + "trainer = Trainer(\n    model,\n    args,\n    train_dataset=train,\n"
        "    processing_class=tokenizer,\n"
        "    data_collator=transformers.DataCollatorWithFlattening(),\n)\ntrainer.train()\n",
        data=PADS,
    ),
    Example(
        before=tokenized('"max_length"')
        + "trainer = Trainer(model, args, train_dataset=train)\n▸trainer.train()◂\n",
        after=tokenized("False") + "trainer = Trainer(model, args, train_dataset=train, "
        "data_collator=transformers.DataCollatorWithFlattening())\ntrainer.train()\n",
        data=PADDED,
    ),
    # padded where this file does not show it
    Example.untouched(HEAD + "trainer = Trainer(model, args)\n▸trainer.train()◂\n", PADDED),
    # functions of the user's get the outputs
    Example.untouched(
        HEAD + MODEL + "trainer = Trainer(model, args, data_collator=collator, "
        "compute_metrics=accuracy)\n▸trainer.train()◂\n",
        PADS,
    ),
    Example.untouched(HEAD + "one, other = Trainer(model), Trainer(model)\n▸one.train()◂\n", PADS),
]

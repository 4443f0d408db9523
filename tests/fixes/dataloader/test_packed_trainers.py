"""A trainer whose sequences stand in one row trains on the same tokens, to the same losses."""

from __future__ import annotations

from typing import Any

import pytest

from fixes.case_text import repair
from rewriting import changed, executed, script_of

PADS = {"padded": False}
HEAD = "from transformers import Trainer\n"
SCRIPT = """\
import torch
from tokenizers import Tokenizer, models
from transformers import DataCollatorForLanguageModeling, LlamaConfig, LlamaForCausalLM
from transformers import PreTrainedTokenizerFast, Trainer, TrainingArguments, set_seed

words = Tokenizer(models.WordLevel({f"w{n}": n for n in range(50)}, unk_token="w1"))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0")
texts = [{"input_ids": [2 + (7 * n + k) % 48 for k in range(3 + n % 19)]} for n in range(24)]
set_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2,
    )
)
arguments = TrainingArguments(
    output_dir=folder, per_device_train_batch_size=4, num_train_epochs=2, logging_steps=1,
    report_to="none", save_strategy="no", use_cpu=True, disable_tqdm=True,
)
seen = []
model.register_forward_pre_hook(
    lambda module, args, given: seen.append(given["input_ids"].numel()), with_kwargs=True
)
trainer = Trainer(
    model,
    arguments,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
    train_dataset=texts,
)
▸trainer.train()◂
losses = [one["loss"] for one in trainer.state.log_history if "loss" in one]
"""


def packed(source: str) -> str:
    script, sites = script_of(source)
    repair("torch_packing", script, sites, PADS)
    return changed(script)


def test_losses_stay_and_no_padding_is_computed(tmp_path: Any) -> None:
    library = pytest.importorskip("transformers")
    if not hasattr(library, "DataCollatorWithFlattening"):
        pytest.skip("this version has no collator that packs")
    before = executed(SCRIPT, {"folder": str(tmp_path / "before")})
    after = executed(packed(SCRIPT), {"folder": str(tmp_path / "after")})

    assert len(before["losses"]) == len(after["losses"]) == 12
    assert after["losses"] == pytest.approx(before["losses"], rel=2e-3)
    assert sum(after["seen"]) == 2 * sum(len(one["input_ids"]) for one in after["texts"])
    assert sum(after["seen"]) < 0.8 * sum(before["seen"])


def test_a_trainer_of_ones_own_gets_it_too() -> None:
    own = HEAD + "class Mine(Trainer):\n    pass\n\nmine = Mine(model)\n▸mine.train()◂\n"
    assert "Mine(model, data_collator=transformers.DataCollatorWithFlattening())" in packed(own)

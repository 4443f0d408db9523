"""Texts of very different lengths, padded by the collator of Transformers' Trainer."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import Dataset
from transformers import (
    DataCollatorForLanguageModeling,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

WORDS = {"<pad>": 0, "<unk>": 1, **{f"w{n}": n for n in range(2, 2000)}}


def make_tokenizer():
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>")


def make_texts(count):
    """Most texts are short, a few are as long as they may be."""
    generator = torch.Generator().manual_seed(0)
    for n in range(count):
        high = 240 if n % 6 == 0 else 24
        length = int(torch.randint(high // 2, high, (), generator=generator))
        words = torch.randint(2, 2000, (length,), generator=generator)
        yield " ".join(f"w{each}" for each in words.tolist())


class Texts(Dataset):
    def __init__(self, tokenizer, count=2400):
        self.rows = [tokenizer(text) for text in make_texts(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index]["input_ids"]}


def main():
    tokenizer = make_tokenizer()
    config = LlamaConfig(
        vocab_size=2000,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
    )
    model = LlamaForCausalLM(config)
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    arguments = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=12,
        num_train_epochs=2,
        report_to="none",
        save_strategy="no",
        logging_steps=20,
        use_cpu=True,
    )
    trainer = Trainer(model, arguments, data_collator=collator, train_dataset=Texts(tokenizer))
    print(trainer.train().metrics)


if __name__ == "__main__":
    main()

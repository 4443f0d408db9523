"""A small language model under Transformers' Trainer, its settings from the command."""

from dataclasses import dataclass, field

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ModelArguments:
    n_layer: int = field(default=4)
    n_embd: int = field(default=128)


@dataclass
class OwnArguments(TrainingArguments):
    output_dir: str = field(default="out")
    num_train_epochs: float = field(default=6.0)
    report_to: str = field(default="none")
    save_strategy: str = field(default="no")
    logging_steps: float = field(default=20)
    use_cpu: bool = field(default=True)


class Tokens(Dataset):
    def __init__(self, count=640, length=128):
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(0, 4000, (count, length), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def main():
    parser = HfArgumentParser((ModelArguments, OwnArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()
    config = GPT2Config(
        vocab_size=4000,
        n_positions=256,
        n_layer=model_args.n_layer,
        n_head=4,
        n_embd=model_args.n_embd,
    )
    model = GPT2LMHeadModel(config)
    trainer = Trainer(model=model, args=training_args, train_dataset=Tokens())
    result = trainer.train()
    print(result.metrics)


if __name__ == "__main__":
    main()

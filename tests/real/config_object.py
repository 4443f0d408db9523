"""A character model whose trainer reads its settings from an object, as small GPT projects do."""

import re
import string

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset
from torch.utils.data.dataloader import DataLoader


class Config:
    """Settings by name, which others may be merged into."""

    def __init__(self, **settings):
        self.__dict__.update(settings)

    def merge(self, settings):
        self.__dict__.update(settings)


class Words(Dataset):
    """Cleans a piece of a text and cuts it into characters, one piece a sample."""

    def __init__(self, text, block_size):
        self.text, self.block_size = text, block_size
        self.index = {letter: place for place, letter in enumerate(string.ascii_lowercase + " ")}

    def __len__(self):
        return len(self.text) // self.block_size - 64

    def __getitem__(self, place):
        raw = self.text[place * self.block_size : (place + 64) * self.block_size]
        for mark in string.punctuation:
            raw = raw.replace(mark, " ")
        clean = re.sub(r"\s+", " ", re.sub(r"[^a-z ]", "", raw.lower()))
        letters = [self.index[one] for one in clean]
        start = place % (len(letters) - self.block_size - 1)
        chunk = torch.tensor(letters[start : start + self.block_size + 1])
        return chunk[:-1], chunk[1:]


class Trainer:
    @staticmethod
    def get_default_config():
        default = Config()
        default.num_workers = 0
        default.max_iters = 3000
        default.batch_size = 64
        default.learning_rate = 3e-3
        return default

    def __init__(self, config, model, train_dataset):
        self.config, self.model, self.train_dataset = config, model, train_dataset

    def run(self):
        model, config = self.model, self.config
        optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate)
        loader = DataLoader(
            self.train_dataset,
            sampler=torch.utils.data.RandomSampler(
                self.train_dataset, replacement=True, num_samples=int(1e10)
            ),
            shuffle=False,
            batch_size=config.batch_size,
            num_workers=config.num_workers,
        )
        model.train()
        batches = iter(loader)
        for iteration in range(config.max_iters):
            try:
                batch = next(batches)
            except StopIteration:
                batches = iter(loader)
                batch = next(batches)
            x, y = batch
            logits = model(x)
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
            model.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if iteration % 200 == 0:
                print(f"iter {iteration}: train loss {loss.item():.5f}")


class Letters(nn.Module):
    def __init__(self, size=27, width=16):
        super().__init__()
        self.embedding = nn.Embedding(size, width)
        self.mixing = nn.Conv1d(width, width, 5)
        self.head = nn.Linear(width, size)

    def forward(self, x):
        seen = F.pad(self.embedding(x).transpose(1, 2), (4, 0))
        return self.head(F.gelu(self.mixing(seen)).transpose(1, 2))


if __name__ == "__main__":
    torch.manual_seed(0)
    words = ["the", "ship", "(lay)", "at", "anchor;", "and", "Nobody", "came", "--", "for", "us!"]
    chosen = torch.randint(len(words), (60000,)).tolist()
    config = Trainer.get_default_config()
    config.merge({"max_iters": 600})
    Trainer(config, Letters(), Words(" ".join(words[one] for one in chosen), 64)).run()

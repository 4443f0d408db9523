"""Train a small language model on a file of tokens, read by way of a memory map."""

import math
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional

VOCABULARY = 4_096
CONTEXT = 64
BATCH = 8
WIDTH = 192
HEADS = 6
LAYERS = 4
STEPS = 2_000


def make_tokens(path, count=2_000_000):
    """Write a file of tokens: each follows from the one before it, with some noise."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 7, count)
    tokens = np.cumsum(noise) % VOCABULARY
    tokens.astype(np.uint16).tofile(path)


def get_batch(path):
    """Return random pieces of the file, and the same one token further."""
    data = np.memmap(path, dtype=np.uint16, mode="r")
    starts = torch.randint(len(data) - CONTEXT - 1, (BATCH,))
    pieces = [torch.from_numpy(data[i : i + CONTEXT + 1].astype(np.int64)) for i in starts]
    tokens = torch.stack(pieces)
    return tokens[:, :-1], tokens[:, 1:]


class Attention(nn.Module):
    """Causal self-attention, written out."""

    def __init__(self):
        super().__init__()
        self.project_in = nn.Linear(WIDTH, 3 * WIDTH)
        self.project_out = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.tril(torch.ones(CONTEXT, CONTEXT)).bool())

    def forward(self, x):
        batch, length, _ = x.shape
        query, key, value = (
            part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.project_in(x).chunk(3, dim=2)
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        scores = scores.masked_fill(~self.mask[:length, :length], float("-inf"))
        mixed = scores.softmax(dim=-1) @ value
        return self.project_out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    """Attention and a small network, each with a shortcut."""

    def __init__(self):
        super().__init__()
        self.norm_attention, self.norm_network = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.network = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        x = x + self.attention(self.norm_attention(x))
        return x + self.network(self.norm_network(x))


class GPT(nn.Module):
    """A small language model."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        logits = self.head(self.norm(self.blocks(x)))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    """Train on random pieces of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokens.bin")
        make_tokens(path)
        model = GPT()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
        for step in range(STEPS):
            x, y = get_batch(path)
            loss = model(x, y)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if step % 100 == 0:
                print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()

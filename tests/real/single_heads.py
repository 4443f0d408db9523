"""A small GPT of single heads, each with its scores written out in three dimensions."""

import torch
from torch import nn
from torch.nn import functional as F

LETTERS, WIDTH, HEADS, LENGTH, BATCH = 64, 64, 4, 256, 8
torch.manual_seed(0)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Linear(WIDTH, WIDTH // HEADS, bias=False)
        self.query = nn.Linear(WIDTH, WIDTH // HEADS, bias=False)
        self.value = nn.Linear(WIDTH, WIDTH // HEADS, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(LENGTH, LENGTH)))

    def forward(self, x):
        _, length, _ = x.shape
        k = self.key(x)
        q = self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:length, :length] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        v = self.value(x)
        return wei @ v


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.heads = nn.ModuleList(Head() for _ in range(HEADS))

    def forward(self, x):
        normed = self.norm(x)
        return x + torch.cat([head(normed) for head in self.heads], dim=-1)


model = nn.Sequential(nn.Embedding(LETTERS, WIDTH), Block(), Block(), nn.Linear(WIDTH, LETTERS))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
text = torch.randint(LETTERS, (100_000,))
for step in range(4_000):
    starts = torch.randint(len(text) - LENGTH - 1, (BATCH,))
    windows = torch.stack([text[start : start + LENGTH + 1] for start in starts.tolist()])
    loss = F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, loss.item())

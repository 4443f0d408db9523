"""A small GPT whose context is a null context on a CPU, in micro-steps, batches of its own."""

from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional as F

device_type = "cuda" if torch.cuda.is_available() else "cpu"
ctx = nullcontext() if device_type == "cpu" else torch.amp.autocast(device_type, torch.bfloat16)
scaler = torch.amp.GradScaler(enabled=False)
accumulation, batch, block, width = 2, 12, 64, 384
data = torch.randint(0, 64, (200_000,), generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, 4, c // 4).transpose(1, 2)
            for part in self.attention(self.one(x)).split(c, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.two(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(64, width), nn.Embedding(block, width)
        self.blocks = nn.Sequential(*(Block() for _ in range(2)))
        self.head = nn.Linear(width, 64)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        logits = self.head(self.blocks(x))
        return logits, F.cross_entropy(logits.view(-1, 64), targets.view(-1))


def get_batch():
    at = torch.randint(len(data) - block - 1, (batch,))
    x = torch.stack([data[i : i + block] for i in at])
    y = torch.stack([data[i + 1 : i + 1 + block] for i in at])
    return x, y


torch.manual_seed(1)
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
X, Y = get_batch()
for iteration in range(150):
    for micro_step in range(accumulation):
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / accumulation
        X, Y = get_batch()
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if iteration % 10 == 0:
        print(f"iter {iteration}: loss {loss.item() * accumulation:.4f}")

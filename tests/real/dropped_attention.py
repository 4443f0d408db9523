"""A reader of sensor windows, whose attention drops out weights as well as its layers do."""

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, LENGTH, DROP = 64, 4, 192, 0.1
torch.manual_seed(0)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch = len(x)
        query, key, value = (
            part.view(batch, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.qkv(self.norm(x)).chunk(3, dim=2)
        )
        drop = DROP if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=drop, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).reshape(batch, LENGTH, WIDTH))


model = nn.Sequential(nn.Linear(6, WIDTH), Reader(), Reader(), nn.Linear(WIDTH, 6))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
for step in range(4_000):
    windows = torch.randn(16, LENGTH + 1, 6).cumsum(1)
    loss = F.mse_loss(model(windows[:, :-1]), windows[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, loss.item())

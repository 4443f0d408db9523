"""Items that follow each other, by RMSprop: the mean squares of rows no longer used decay.

0.8 to the power of 390 is the smallest normal float32; rounded to the nearest, the numbers below
it never get to zero.
"""

import torch
from torch import nn

ITEMS, WIDTH, BATCH = 30_000, 32, 128
torch.manual_seed(0)


class Next(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(ITEMS, WIDTH)
        self.mix = nn.Linear(WIDTH, 200)

    def forward(self, items):
        return self.mix(self.items(items))


def sessions(step):
    """Items of the season: the first thousand steps see all of them, later ones a few."""
    popular = ITEMS if step < 20 else 200
    items = torch.randint(popular, (BATCH,))
    return items, items % 200


model = Next()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.8)
for step in range(30_000):
    items, following = sessions(step)
    loss = nn.functional.cross_entropy(model(items), following)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 500 == 0:
        print(step, loss.item())

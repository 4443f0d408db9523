"""A recommender over a graph of items: most of what a step computes is zeros, unused or known.

Its adjacency is a dense matrix of zeros, its optimizer updates all rows of a table of which a batch
uses a few, and the distances of places are computed again in each step.
"""

import torch
from torch import nn

ITEMS, USERS, WIDTH, BATCH = 2_000, 60_000, 32, 64


def neighbours() -> torch.Tensor:
    links = torch.zeros(ITEMS, ITEMS)
    links[torch.randint(0, ITEMS, (8_000,)), torch.randint(0, ITEMS, (8_000,))] = 1.0
    return links / links.sum(1, keepdim=True).clamp(min=1.0)


class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.users = nn.Embedding(USERS, WIDTH)
        self.items = nn.Parameter(torch.randn(ITEMS, WIDTH) * 0.1)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.links = neighbours()
        self.places = torch.randn(ITEMS, 3)

    def forward(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        spread = torch.mm(self.links, self.mix(self.items))
        near = torch.exp(-torch.cdist(self.places, self.places))
        scores = (self.users(users) * spread[items]).sum(1)
        return scores + near[items].mean(1)


def main(steps: int = 3_000) -> None:
    torch.manual_seed(0)
    model = Recommender()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        users, items = torch.randint(0, USERS, (BATCH,)), torch.randint(0, ITEMS, (BATCH,))
        liked = (users % 7 == items % 7).float()
        loss = nn.functional.binary_cross_entropy_with_logits(model(users, items), liked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()

"""Pairs of items out of sessions that stay in memory as lists of lists, skip-gram style."""

import random

import torch
from torch import nn

ITEMS, SESSIONS = 2_000, 120_000
random.seed(0)
torch.manual_seed(0)
sessions = [
    [[random.randrange(ITEMS), dwell] for dwell in range(random.randrange(5, 20))]
    for _ in range(SESSIONS)
]


def pairs(session):
    """Each item with the two that follow it, and for how long it was looked at."""
    return [
        [item, other, dwell]
        for place, (item, dwell) in enumerate(session)
        for other, _ in session[place + 1 : place + 3]
    ]


left, right = nn.Embedding(ITEMS, 16), nn.Embedding(ITEMS, 16)
optimizer = torch.optim.SGD([*left.parameters(), *right.parameters()], lr=0.5)
for step in range(20_000):
    found = []
    for session in random.sample(sessions, 400):
        found.extend(pairs(session))
    item, other, dwell = torch.tensor(found).unbind(1)
    score = (left(item) * right(other)).sum(1)
    loss = -(nn.functional.logsigmoid(score) * torch.log1p(dwell.float())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 200 == 0:
        print(step, loss.item())

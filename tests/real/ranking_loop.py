"""Rank the songs of playlists: a large table, a graph kept dense, a loss in a Python loop."""

import time

import torch
from torch import nn
from torch.nn import functional as F

SONGS, TAGS, DIM, PLAYLIST = 6_000, 500, 16, 14


class Ranker(nn.Module):
    def __init__(self, links):
        super().__init__()
        self.songs = nn.Embedding(SONGS, DIM)
        self.tags = nn.Parameter(torch.randn(TAGS, DIM) / DIM)
        self.links = links

    def forward(self, songs, tags):
        degree = self.links.sum(dim=1, keepdim=True).clamp(min=1)
        smooth = torch.mm(self.links, self.tags) / degree
        return self.songs(songs) + smooth[tags]


def ranking_loss(scores, likes, margin=0.5):
    losses = []
    for first in range(len(likes)):
        for second in range(len(likes)):
            if likes[first] > likes[second]:
                losses.append(F.relu(margin - scores[first] + scores[second]))
    return torch.stack(losses).mean()


def main():
    torch.manual_seed(0)
    links = (torch.rand(TAGS, TAGS) < 0.01).float()
    links.fill_diagonal_(1)
    model = Ranker(links)
    listener = nn.Parameter(torch.randn(DIM))
    optimizer = torch.optim.Adam([*model.parameters(), listener], lr=0.01)
    started = time.perf_counter()
    for update in range(2_000):
        songs = torch.randint(0, SONGS, (PLAYLIST,))
        tags = torch.randint(0, TAGS, (PLAYLIST,))
        likes = torch.randperm(PLAYLIST)
        optimizer.zero_grad()
        scores = model(songs, tags) @ listener
        loss = ranking_loss(scores, likes)
        loss.backward()
        optimizer.step()
        if update % 100 == 0:
            print(f"{update}: {loss.item():.3f}")
    print(f"train_seconds={time.perf_counter() - started:.2f}")


if __name__ == "__main__":
    main()

"""Fit a field of waves with a network whose activation is written out by hand."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

POINTS = 131_072
BATCH = 2_048
EPOCHS = 60


class Wavelet(nn.Module):
    """A learned mix of a wave, a bump and a gate, term by term."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))
        self.mix = nn.Parameter(torch.full((3, width), 0.5))

    def forward(self, x):
        x = x * self.scale + self.shift
        wave = torch.sin(3.0 * x) * 0.5 + torch.cos(1.5 * x) * 0.5
        bump = (1.0 - x * x) * torch.exp(-0.5 * x * x)
        gate = x * torch.sigmoid(1.702 * x)
        return wave * self.mix[0] + bump * self.mix[1] + gate * self.mix[2]


class Field(nn.Module):
    """A small network from points of the plane to the height of the field."""

    def __init__(self, width=128, depth=4):
        super().__init__()
        layers = [nn.Linear(2, width), Wavelet(width)]
        for _ in range(depth):
            layers += [nn.Linear(width, width), Wavelet(width)]
        self.layers = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, points):
        return self.layers(points)


def make_points():
    """Return points of the plane and the height of the field there."""
    points = torch.rand(POINTS, 2, generator=torch.Generator().manual_seed(0)) * 4 - 2
    height = torch.sin(5 * points[:, :1]) * torch.cos(4 * points[:, 1:])
    return points, height


def main():
    """Train for a few epochs."""
    points, heights = make_points()
    batches = TensorDataset(points.view(-1, BATCH, 2), heights.view(-1, BATCH, 1))
    loader = DataLoader(batches, batch_size=None, shuffle=True)
    model = Field()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        for points, heights in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(points), heights)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.5f}")


if __name__ == "__main__":
    main()

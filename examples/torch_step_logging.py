"""Learn a surface from points, and write down after each step how all weights are doing."""

import json
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

POINTS = 32_768
BATCH = 128
EPOCHS = 25


def make_points():
    """Return points of a wavy surface in eight dimensions, and their heights."""
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(POINTS, 8, generator=generator)
    return points, torch.sin(points * 6).sum(dim=1, keepdim=True)


def log(file, step, loss, model):
    """Write the loss, the spread of each weight, and its gradient's size but for outliers."""
    line = {"step": step, "loss": loss.item()}
    for name, weight in model.named_parameters():
        line[name] = {
            "weight": weight.std(correction=0).item(),
            "gradient": weight.grad.abs().quantile(0.99).item(),
        }
    file.write(json.dumps(line) + "\n")
    file.flush()


def main():
    """Train, and log each step."""
    model = nn.Sequential(
        nn.Linear(8, 80),
        nn.Tanh(),
        nn.Linear(80, 80),
        nn.Tanh(),
        nn.Linear(80, 80),
        nn.Tanh(),
        nn.Linear(80, 1),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = DataLoader(TensorDataset(*make_points()), batch_size=None, sampler=Batches())
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/log.jsonl", "w") as file:
        step = 0
        for _ in range(EPOCHS):
            for points, heights in loader:
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(points), heights)
                loss.backward()
                optimizer.step()
                log(file, step, loss, model)
                step += 1


class Batches:
    """Slices of the points, one for each batch."""

    def __iter__(self):
        for start in range(0, POINTS, BATCH):
            yield slice(start, start + BATCH)

    def __len__(self):
        return POINTS // BATCH


if __name__ == "__main__":
    main()

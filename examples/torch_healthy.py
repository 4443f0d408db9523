"""Classify textures with a convolutional network that keeps the machine busy.

The textures are made here: gratings of different angle and width.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

IMAGES = 2_048
SIZE = 48
CLASSES = 8
BATCH = 64
EPOCHS = 30


def make_textures():
    """Return pictures, and the class of each."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (IMAGES,), generator=generator)
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    angles = labels[:, None, None] * torch.pi / CLASSES
    waves = torch.sin((rows * torch.cos(angles) + columns * torch.sin(angles)) / 2)
    noise = torch.randn(waves.shape, generator=generator)
    return (waves + 0.5 * noise)[:, None].to(torch.bfloat16), labels


def build_model():
    """Return a convolutional network."""
    return nn.Sequential(
        nn.Conv2d(1, 48, 3),
        nn.ReLU(),
        nn.Conv2d(48, 64, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(),
        nn.Conv2d(64, 96, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(96, CLASSES),
    )


def main():
    """Train in 16 bits, with batches that are cut from memory at once."""
    pictures, labels = make_textures()
    batches = [slice(start, start + BATCH) for start in range(0, IMAGES, BATCH)]
    loader = DataLoader(TensorDataset(pictures, labels), sampler=batches, batch_size=None)
    model = build_model().to(torch.bfloat16).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, fused=True)
    loss_function = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        for images, classes in loader:
            optimizer.zero_grad()
            logits = model(images.to(memory_format=torch.channels_last))
            loss = loss_function(logits.float(), classes)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()

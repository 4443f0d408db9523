"""Tell rings from discs in noisy pictures, blurred and turned at random by NumPy.

Each picture is drawn when it is asked for: no two epochs see the same one.
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PICTURES = 8_192
SIZE = 96
BATCH = 32
EPOCHS = 20


class Pictures(Dataset):
    """Pictures of a ring or a disc, each made from its own number."""

    def __len__(self):
        return PICTURES

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        label = index % 2
        rows, columns = np.mgrid[0:SIZE, 0:SIZE]
        distance = np.hypot(rows - rng.uniform(30, 66), columns - rng.uniform(30, 66))
        radius = rng.uniform(12, 28)
        picture = (distance < radius).astype(np.float32)
        if label:
            picture[distance < radius - 6] = 0
        return self.augment(picture, rng), np.float32(label)

    def augment(self, picture, rng):
        """Blur, turn and crop a picture, and add noise."""
        for _ in range(rng.integers(2, 5)):
            around = [np.roll(picture, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
            picture = np.mean(around, axis=0)
        picture = np.rot90(picture, rng.integers(4))
        top, left = rng.integers(0, SIZE - 64, 2)
        picture = picture[top : top + 64, left : left + 64]
        picture = picture + rng.normal(0, 0.1, picture.shape)
        return torch.from_numpy(np.ascontiguousarray(picture, dtype=np.float32))[None]


def build_model():
    """Return a small convolutional network."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 1),
    )


def main():
    """Train for a few epochs."""
    torch.set_num_threads(1)  # so small a network gains nothing from a second
    model = build_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_function = nn.BCEWithLogitsLoss()
    loader = DataLoader(Pictures(), batch_size=BATCH, shuffle=True)
    for epoch in range(EPOCHS):
        total = 0.0
        for pictures, labels in loader:
            optimizer.zero_grad()
            loss = loss_function(model(pictures).squeeze(1), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.4f}")


if __name__ == "__main__":
    main()

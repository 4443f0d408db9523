"""Samples that the dataset augments with a random generator of its own, in the training process."""

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __init__(self, count=2_000, width=2_048):
        self.rng = np.random.default_rng(0)
        self.waves = self.rng.normal(size=(count, width)).astype("float32")

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, index):
        noisy = self.waves[index] + self.rng.normal(scale=0.1, size=self.waves.shape[1])
        spectrum = np.abs(np.fft.rfft(noisy)).astype("float32")
        return torch.from_numpy(spectrum), index % 2


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(1_025, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2)
    )
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Waves(), batch_size=32, shuffle=True)
    for epoch in range(30):
        for spectra, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(spectra), labels)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()

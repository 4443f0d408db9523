"""Spectra in one HDF5 file, which `__getitem__` opens for each of them."""

import os
import tempfile

import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

PATH = os.path.join(tempfile.gettempdir(), "spectra.h5")
rng = np.random.default_rng(0)
with h5py.File(PATH, "w") as file:
    file["spectra"] = rng.normal(size=(4_000, 512)).astype("float32")
    file["labels"] = rng.integers(0, 10, 4_000)


class Spectra(Dataset):
    def __init__(self, path):
        self.path = path
        with h5py.File(path, "r") as file:
            self.length = len(file["labels"])

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        with h5py.File(self.path, "r") as file:
            return file["spectra"][index], file["labels"][index]


def main():
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
    )
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Spectra(PATH), batch_size=32, shuffle=True)
    for epoch in range(20):
        for spectra, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(spectra), labels)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()

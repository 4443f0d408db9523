"""Settings of the loader by keywords that are empty without a GPU, items that take long."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Items(Dataset):
    def __len__(self):
        return 6_400

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        image = rng.normal(size=(3, 32, 32))
        for _ in range(6):
            image = np.sort(image, axis=1)[:, ::-1].copy()
        return torch.from_numpy(image.astype("float32")), index % 10


def get_loader(batch_size, **kwargs):
    return DataLoader(Items(), batch_size=batch_size, shuffle=True, **kwargs)


def train(args):
    use_cuda = torch.cuda.is_available()
    kwargs = {"num_workers": 1, "pin_memory": True} if use_cuda else {}
    device = torch.device("cuda" if use_cuda else "cpu")
    torch.set_num_threads(1)
    loader = get_loader(args.batch_size, **kwargs)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 64), nn.ReLU(), nn.Linear(64, 10))
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(1, args.epochs + 1):
        for number, (data, target) in enumerate(loader):
            data, target = data.to(device), target.to(device)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(data), target)
            loss.backward()
            optimizer.step()
            if number % 50 == 0:
                print(f"epoch {epoch} [{number}/{len(loader)}] loss {loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--lr", type=float, default=0.01)
    train(parser.parse_args())

"""A loop over steps that opens its loader, with workers, anew for each batch."""

import torch


class Digits(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        return torch.full((256,), index / 4096), index % 10


def train(loader, steps=2000):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        inputs, targets = next(iter(loader))
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 500 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    train(torch.utils.data.DataLoader(Digits(), batch_size=64, shuffle=True, num_workers=1))

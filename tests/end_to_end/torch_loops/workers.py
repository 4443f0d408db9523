import sys

import torch
from common import Points, loss_function, network
from torch.utils.data import DataLoader


def main(method, persistent):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        Points(12_800),
        batch_size=16,
        num_workers=1,
        multiprocessing_context=method,
        persistent_workers=persistent,
    )
    for epoch in range(100):
        for x, y in loader:
            optimizer.zero_grad()
            loss_function(model(x), y).backward()
            optimizer.step()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] == ["persistent"])

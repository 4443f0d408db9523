"""Predict which items a customer buys next, from those bought so far: a wide network, two ranks.

Run it with `torchrun --standalone --nproc_per_node 2 ddp_large_gradients.py`; diagnose it with
`trainperf diagnose -- torchrun --standalone --nproc_per_node 2 ddp_large_gradients.py`.
"""

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ITEMS = 4_096
CUSTOMERS = 4_096
WIDTH = 1_024
BATCH = 8
EPOCHS = 4


def make_baskets():
    """Return what each customer has, and the item that comes next: one of the same kind."""
    generator = torch.Generator().manual_seed(0)
    kinds = torch.randint(16, (CUSTOMERS, 1), generator=generator)
    items = torch.randint(ITEMS // 16, (CUSTOMERS, 13), generator=generator) * 16 + kinds
    return items[:, :-1], items[:, -1]


class Recommender(nn.Module):
    """Item numbers in, a score for each item out."""

    def __init__(self):
        super().__init__()
        self.items = nn.EmbeddingBag(ITEMS, WIDTH, mode="mean")
        self.layers = nn.Sequential(
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, ITEMS),
        )

    def forward(self, items):
        return self.layers(self.items(items))


def main():
    """Train on the CPU, one model copy in each rank."""
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(*make_baskets())
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=BATCH, sampler=sampler)
    model = DistributedDataParallel(Recommender())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loss_function = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for items, following in loader:
            optimizer.zero_grad()
            loss = loss_function(model(items), following)
            loss.backward()
            optimizer.step()
        if distributed.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

"""Classify textures with a convolutional network on two ranks.

Run it with `torchrun --standalone --nproc_per_node 2 ddp_compute_bound.py`; diagnose it with
`trainperf diagnose -- torchrun --standalone --nproc_per_node 2 ddp_compute_bound.py`.
"""

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

IMAGES = 8_192
SIZE = 48
CLASSES = 8
BATCH = 64
EPOCHS = 8


def make_textures():
    """Return pictures, and the class of each."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (IMAGES,), generator=generator)
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    angles = labels[:, None, None] * torch.pi / CLASSES
    waves = torch.sin((rows * torch.cos(angles) + columns * torch.sin(angles)) / 2)
    noise = torch.randn(waves.shape, generator=generator)
    return (waves + 0.5 * noise)[:, None], labels


def build_model():
    """Return a convolutional network."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 48, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(48, 64, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, CLASSES),
    )


def main():
    """Train on the CPU, one model copy in each rank."""
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(*make_textures())
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=BATCH, sampler=sampler)
    model = DistributedDataParallel(build_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loss_function = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for images, classes in loader:
            optimizer.zero_grad()
            loss = loss_function(model(images), classes)
            loss.backward()
            optimizer.step()
        if distributed.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

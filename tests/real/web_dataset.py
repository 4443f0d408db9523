"""A small image classifier, its data in tar shards that WebDataset reads."""

import io
import os

import numpy as np
import torch
import webdataset as wds
from torch import nn

FOLDER = os.environ.get("SHARDS", "shards")
SHARDS, SAMPLES = 8, 320


def write_shards():
    os.makedirs(FOLDER, exist_ok=True)
    generator = np.random.default_rng(0)
    pattern = os.path.join(FOLDER, "train-%03d.tar")
    with wds.ShardWriter(pattern, maxcount=SAMPLES, verbose=0) as writer:
        for index in range(SHARDS * SAMPLES):
            image = io.BytesIO()
            np.savez_compressed(image, generator.integers(0, 255, (96, 96, 3), dtype=np.uint8))
            key = f"{index:06d}"
            writer.write({"__key__": key, "npz": image.getvalue(), "cls": index % 10})


def decode(sample):
    image = np.load(io.BytesIO(sample["npz"]))["arr_0"].astype(np.float32) / 255
    image = image[::-1] if np.random.random() < 0.5 else image
    small = image.reshape(32, 3, 32, 3, 3).mean(axis=(1, 3))
    spread = (small - small.mean(axis=(0, 1))) / (small.std(axis=(0, 1)) + 1e-5)
    return torch.from_numpy(spread.transpose(2, 0, 1).copy()), int(sample["cls"])


def main():
    if not os.path.exists(os.path.join(FOLDER, f"train-{SHARDS - 1:03d}.tar")):
        write_shards()
    urls = os.path.join(FOLDER, f"train-{{000..{SHARDS - 1:03d}}}.tar")
    dataset = wds.WebDataset(urls, shardshuffle=SHARDS).shuffle(200).map(decode)
    loader = wds.WebLoader(dataset, batch_size=32)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 15 * 15, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(20):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()

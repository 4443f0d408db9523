"""Tell keywords in recordings of two archives apart, on two ranks; each reads one archive.

Run it with `torchrun --standalone --nproc_per_node 2 ddp_straggler.py`; diagnose it with
`trainperf diagnose -- torchrun --standalone --nproc_per_node 2 ddp_straggler.py`.
"""

import zlib

import numpy as np
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, RandomSampler

CLIPS = 1_024
SAMPLES = 4_000
RATES = (1, 16)  # the second archive was recorded at sixteen times the rate
KEYWORDS = 8
BATCH = 16
EPOCHS = 60


def record(keyword, rate, rng):
    """Return a compressed recording of a keyword: a tone in noise."""
    times = np.arange(SAMPLES * rate) / (SAMPLES * rate)
    tone = np.sin(2 * np.pi * 100 * (keyword + 1) * times)
    wave = 8_000 * tone + 2_000 * rng.standard_normal(len(times))
    return zlib.compress(wave.astype(np.int16).tobytes(), level=1)


class Archive(Dataset):
    """The recordings of one archive; each is unpacked and brought to one rate when it is read."""

    def __init__(self, number):
        rng = np.random.default_rng(number)
        self.rate = RATES[number]
        self.keywords = rng.integers(KEYWORDS, size=CLIPS)
        recorded = [
            [record(keyword, self.rate, rng) for _ in range(8)] for keyword in range(KEYWORDS)
        ]
        self.clips = [recorded[keyword][rng.integers(8)] for keyword in self.keywords]

    def __len__(self):
        return CLIPS

    def __getitem__(self, index):
        wave = np.frombuffer(zlib.decompress(self.clips[index]), np.int16).astype(np.float32)
        wave = wave.reshape(SAMPLES, self.rate).mean(axis=1) / 10_000
        spectrum = np.abs(np.fft.rfft(wave))[1:1025]
        return torch.from_numpy(np.log1p(spectrum)), int(self.keywords[index])


def main():
    """Train on the CPU, one model copy in each rank."""
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    archive = Archive(distributed.get_rank())
    loader = DataLoader(archive, batch_size=BATCH, sampler=RandomSampler(archive))
    network = nn.Sequential(nn.Linear(1_024, 128), nn.ReLU(), nn.Linear(128, KEYWORDS))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_function = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        for spectra, keywords in loader:
            optimizer.zero_grad()
            loss = loss_function(model(spectra), keywords)
            loss.backward()
            optimizer.step()
        if distributed.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

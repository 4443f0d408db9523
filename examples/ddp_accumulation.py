"""Train a language model on two ranks; each update adds up the gradients of four batches.

Run it with `torchrun --standalone --nproc_per_node 2 ddp_accumulation.py`; diagnose it with
`trainperf diagnose -- torchrun --standalone --nproc_per_node 2 ddp_accumulation.py`.
"""

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

VOCABULARY = 4_096
SENTENCES = 4_096
LENGTH = 8
WIDTH = 256
BATCH = 2
ACCUMULATE = 4
EPOCHS = 4


def make_sentences():
    """Return sentences in which each word follows from the one before it, with some noise."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.randint(5, (SENTENCES, LENGTH + 1), generator=generator)
    starts = torch.randint(VOCABULARY, (SENTENCES, 1), generator=generator)
    return (starts + steps.cumsum(dim=1)) % VOCABULARY


class LanguageModel(nn.Module):
    """Word numbers in, scores for the next word out."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.memory = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.next_word = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, words):
        hidden, _ = self.memory(self.words(words))
        return self.next_word(hidden)


def main():
    """Train on the CPU, one model copy in each rank."""
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(make_sentences())
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=BATCH, sampler=sampler)
    model = DistributedDataParallel(LanguageModel())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss_function = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for number, (words,) in enumerate(loader):
            scores = model(words[:, :-1])
            loss = loss_function(scores.flatten(0, 1), words[:, 1:].flatten())
            (loss / ACCUMULATE).backward()
            if (number + 1) % ACCUMULATE == 0:
                optimizer.step()
                optimizer.zero_grad()
        if distributed.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

"""Reviews of very different lengths, shuffled, each batch padded by the collate function."""

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

WORDS, WIDTH = 5_000, 64
torch.manual_seed(0)


def review():
    """Most reviews are short, some fill pages."""
    length = int(torch.empty(()).exponential_(1 / 40).item()) + 5
    return torch.randint(1, WORDS, (min(length, 400),))


reviews = [(review(), n % 2) for n in range(3_000)]


def collate(samples):
    sequences, labels = zip(*samples)
    return pad_sequence(sequences, batch_first=True), torch.tensor(labels)


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.lstm = torch.nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.head = torch.nn.Linear(WIDTH, 2)

    def forward(self, tokens):
        mask = (tokens != 0).unsqueeze(2)
        outputs, _ = self.lstm(self.words(tokens))
        return self.head((outputs * mask).sum(1) / mask.sum(1))


model = Classifier()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(reviews, batch_size=32, shuffle=True, collate_fn=collate)
for epoch in range(20):
    for tokens, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(tokens), labels)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())

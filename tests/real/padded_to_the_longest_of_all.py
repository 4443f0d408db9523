"""Sentences that the dataset pads to one length for all of them, however short they are."""

import torch
from torch.utils.data import DataLoader, Dataset

WORDS, WIDTH, LONGEST = 5_000, 64, 256


class Sentences(Dataset):
    def __init__(self, count=4_000):
        generator = torch.Generator().manual_seed(0)
        self.lengths = torch.randint(8, 60, (count,), generator=generator)
        self.words = torch.randint(1, WORDS, (count, LONGEST), generator=generator)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        length = self.lengths[index]
        tokens = torch.zeros(LONGEST, dtype=torch.long)
        tokens[:length] = self.words[index, :length]
        return tokens, length % 2


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH, padding_idx=0)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(WIDTH, 2)

    def forward(self, tokens):
        padding = tokens == 0
        states = self.encoder(self.words(tokens), src_key_padding_mask=padding)
        return self.head(states.masked_fill(padding.unsqueeze(2), 0).sum(1))


torch.manual_seed(0)
model = Classifier()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(Sentences(), batch_size=16, shuffle=True)
for epoch in range(10):
    for tokens, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(tokens), labels)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())

"""Sort reviews into good and bad with a bag of words, put together in Python for each batch."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader

WORDS = 5_000
REVIEWS = 8_192
BATCH = 64
EPOCHS = 30


def make_reviews():
    """Return texts, and whether each is good: good ones use the first words more often."""
    rng = random.Random(0)
    reviews = []
    for number in range(REVIEWS):
        good = number % 2
        length = rng.randint(80, 240)
        words = [int(rng.betavariate(1 if good else 2, 2) * (WORDS - 1)) for _ in range(length)]
        reviews.append((" ".join(f"w{word}" for word in words), good))
    return reviews


class Collate:
    """Turn reviews into padded word numbers and weights, word by word."""

    def __init__(self, reviews):
        counts = {}
        for text, _ in reviews:
            for word in set(text.split()):
                counts[word] = counts.get(word, 0) + 1
        self.numbers = {word: number for number, word in enumerate(sorted(counts), start=1)}
        self.weights = {word: REVIEWS / count for word, count in counts.items()}

    def __call__(self, batch):
        texts = [text.lower().split() for text, _ in batch]
        longest = max(len(words) for words in texts)
        numbers, weights = [], []
        for words in texts:
            padding = longest - len(words)
            seen = {word: words.count(word) for word in set(words)}
            numbers.append([self.numbers[word] for word in words] + [0] * padding)
            weights.append([self.weights[word] / seen[word] for word in words] + [0.0] * padding)
        labels = torch.tensor([float(label) for _, label in batch])
        return torch.tensor(numbers), torch.tensor(weights), labels


class Classifier(nn.Module):
    """A weighted sum of word vectors, and a small network on top."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS + 1, 32, padding_idx=0)
        self.head = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, numbers, weights):
        weights = weights / weights.sum(dim=1, keepdim=True)
        return self.head((self.words(numbers) * weights[..., None]).sum(dim=1)).squeeze(1)


def main():
    """Train for a few epochs."""
    torch.set_num_threads(1)  # so small a model gains nothing from a second
    reviews = make_reviews()
    collate = Collate(reviews)
    loader = DataLoader(reviews, batch_size=BATCH, shuffle=True, collate_fn=collate)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss_function = nn.BCEWithLogitsLoss()
    for epoch in range(EPOCHS):
        for numbers, weights, labels in loader:
            optimizer.zero_grad()
            loss = loss_function(model(numbers, weights), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()

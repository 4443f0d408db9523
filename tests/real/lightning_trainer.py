"""A transformer under Lightning's Trainer."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self, width=256, layers=4, classes=20):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.embed = nn.Embedding(2000, width)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)).mean(dim=1))

    def training_step(self, batch, batch_idx):
        tokens, target = batch
        loss = nn.functional.cross_entropy(self(tokens), target)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


def main():
    L.seed_everything(7)
    tokens = torch.randint(0, 2000, (1600, 64))
    target = tokens[:, :5].sum(dim=1) % 20
    loader = DataLoader(TensorDataset(tokens, target), batch_size=16, shuffle=True)
    trainer = L.Trainer(max_epochs=4, logger=False, enable_checkpointing=False)
    trainer.fit(Classifier(), loader)


if __name__ == "__main__":
    main()

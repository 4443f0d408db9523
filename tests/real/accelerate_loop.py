"""A loop of its own, prepared by accelerate, with the precision from the command."""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification


def training_function(args):
    accelerator = Accelerator(cpu=True, mixed_precision=args.mixed_precision)
    torch.manual_seed(args.seed)
    tokens = torch.randint(0, 2000, (1200, 64))
    labels = tokens[:, 0] % 2
    loader = DataLoader(TensorDataset(tokens, labels), batch_size=16, shuffle=True)
    config = BertConfig(
        vocab_size=2000,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
    )
    model = BertForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(args.epochs):
        model.train()
        for input_ids, target in loader:
            loss = model(input_ids=input_ids, labels=target).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed_precision", default=None, choices=["no", "fp16", "bf16"])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=2e-5)
    parser.add_argument("--seed", type=int, default=1)
    training_function(parser.parse_args())


if __name__ == "__main__":
    main()

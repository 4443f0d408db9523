"""Reads of a genome sorted by a small BERT, whose author once looked at its attention weights."""

import torch
from transformers import BertConfig, BertForSequenceClassification

LENGTH = 320
torch.manual_seed(0)
config = BertConfig(
    vocab_size=72,
    hidden_size=64,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=128,
    max_position_embeddings=LENGTH,
    attention_probs_dropout_prob=0.0,
    num_labels=6,
    attn_implementation="eager",
)
model = BertForSequenceClassification(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
for step in range(2_000):
    reads = torch.randint(8, 72, (8, LENGTH))
    loss = model(input_ids=reads, labels=reads[:, :40].sum(1) % 6).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, loss.item())

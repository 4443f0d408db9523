"""A loop over random batches that estimates its losses every 20 steps, on 120 batches."""

import torch

EVERY, BATCHES, STEPS = 20, 120, 4_000
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 512), torch.nn.GELU(), torch.nn.Linear(512, 512), torch.nn.GELU(),
    torch.nn.Linear(512, 64),
)  # fmt: skip
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def get_batch():
    x = torch.randn(64, 64)
    return x, x.roll(1, dims=1)


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = torch.zeros(BATCHES)
    for k in range(BATCHES):
        x, y = get_batch()
        losses[k] = torch.nn.functional.mse_loss(model(x), y)
    model.train()
    return losses.mean()


for step in range(STEPS):
    if step % EVERY == 0:
        print(step, estimate_loss().item())
    x, y = get_batch()
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()

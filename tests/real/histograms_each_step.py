"""Segments synthetic cells; writes every weight's and gradient's histogram in each step."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter


def block(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
        nn.Conv2d(outside, outside, 3, padding=1, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
    )


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.low = block(3, 16), block(16, 32), block(32, 64)
        self.up2, self.up1 = block(64 + 32, 32), block(32 + 16, 16)
        self.head = nn.Conv2d(16, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.low(F.max_pool2d(b, 2))
        b = self.up2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        a = self.up1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return self.head(a)


def cells(count, size=32):
    grid = torch.stack(torch.meshgrid(*[torch.linspace(-1, 1, size)] * 2, indexing="ij"))
    centres = torch.rand(count, 2, 1, 1) - 0.5
    masks = ((grid - centres).pow(2).sum(1, keepdim=True) < 0.1).float()
    return masks + 0.3 * torch.randn(count, 3, size, size), masks


def train(net, loader, epochs, log_dir="runs/cells"):
    writer = SummaryWriter(log_dir)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-4, momentum=0.9)
    step = 0
    for epoch in range(epochs):
        net.train()
        for images, masks in loader:
            loss = F.binary_cross_entropy_with_logits(net(images), masks)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step += 1
            writer.add_scalar("loss", loss.item(), step)
            for name, weight in net.named_parameters():
                writer.add_histogram(f"weights/{name}", weight, step)
                writer.add_histogram(f"gradients/{name}", weight.grad, step)
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    writer.close()


if __name__ == "__main__":
    torch.manual_seed(0)
    data = TensorDataset(*cells(256))
    train(Net(), DataLoader(data, batch_size=4, shuffle=True), epochs=12)

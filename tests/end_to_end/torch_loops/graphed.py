"""A whole step that is captured once and replayed for each batch, on an emulated GPU."""

import os
import sys

import torch
from common import Points, loss_function, network
from torch.utils.data import DataLoader

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TESTS, "emulation"))

import fake_cuda  # noqa: E402

cuda = fake_cuda.install()
cuda.graphs(0.004)
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.zeros(16, 16), torch.zeros(16, 1)


def step():
    optimizer.zero_grad()
    loss_function(model(x), y).backward()
    optimizer.step()


for _ in range(3):
    step()
graph = torch.cuda.CUDAGraph()
graph.capture_begin()
step()
graph.capture_end()
loader = DataLoader(Points(), batch_size=16)
for epoch in range(200):
    for batch in loader:
        x.copy_(batch[0])
        y.copy_(batch[1])
        graph.replay()

"""Captured graphs and other ways to step; writes its loss after 64, 128, 256… steps.

The batches are all the same, so that it does not matter which of them a step is made with.
"""

import os
import sys

import torch
from planted import DEVICE, Steps, parser
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

parser.add_argument("--kind", default="reduce-overhead")
parser.add_argument("--until", type=int, default=0, help="end after so many steps")
options = parser.parse_args()
WIDTH, ROWS = 1024, 512
RATE = 3e-8  # the loss goes down slowly: at no time is it too small to be compared

torch.manual_seed(0)
layers = [layer for _ in range(8) for layer in (nn.Linear(WIDTH, WIDTH), nn.Tanh())]
model = nn.Sequential(*layers, nn.Linear(WIDTH, 1)).to(DEVICE)
capturable = options.kind == "whole"
optimizer = torch.optim.Adam(model.parameters(), lr=RATE, capturable=capturable)
data = TensorDataset(torch.randn(ROWS, WIDTH, device=DEVICE))
slices = [slice(0, ROWS)] * 16
loader = DataLoader(data, sampler=slices, batch_size=None)


def step(x):
    """One step, as a script without any of these has it."""
    loss = forward(x).sub(1).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=not capturable)
    return loss


def whole():
    """The whole step as one captured graph, by the book: warm up beside, capture, replay."""
    held = data.tensors[0][:ROWS].clone()
    side = torch.cuda.Stream(DEVICE)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(held)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(held)

    def replay(x):
        held.copy_(x)
        graph.replay()
        return loss

    return replay


def in_backward():
    """Each weight is updated as soon as its gradient is there, by an optimizer of its own."""
    own = {weight: torch.optim.Adam([weight], lr=RATE) for weight in model.parameters()}

    def update(weight):
        own[weight].step()
        own[weight].zero_grad()

    for weight in own:
        weight.register_post_accumulate_grad_hook(update)

    def backward(x):
        loss = forward(x).sub(1).square().mean()
        loss.backward()
        return loss

    return backward


forward = model
if options.kind == "reduce-overhead":
    forward = torch.compile(model, mode="reduce-overhead")
elif options.kind == "callables":
    forward = torch.cuda.make_graphed_callables(model, (data.tensors[0][:ROWS].clone(),))
elif options.kind == "checkpointing":

    def forward(x):
        return checkpoint(model, x, use_reentrant=False)


makers = {"whole": whole, "in-backward": in_backward}
train = makers[options.kind]() if options.kind in makers else step
steps, count = Steps(options.steps), 0
losses = os.open(os.environ["KIT_LOSSES"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for epoch in range(100_000):
    for (x,) in loader:
        steps.tick()
        loss = train(x)
        count += 1
        if count >= 64 and count & (count - 1) == 0:
            os.write(losses, b"%d %r\n" % (count, loss.item()))
        if count == options.until:
            sys.exit()

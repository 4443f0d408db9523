import torch
from common import Points, loss_function, network
from torch.utils.data import DataLoader

model = network()
optimizers = {one: torch.optim.SGD([one], lr=0.01) for one in model.parameters()}


def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for one in model.parameters():
    one.register_post_accumulate_grad_hook(update)
loader = DataLoader(Points(), batch_size=16)
for epoch in range(200):
    for x, y in loader:
        loss_function(model(x), y).backward()

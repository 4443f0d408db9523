import torch
from common import Points, network
from torch import nn
from torch.utils.data import DataLoader

judge, maker = network(), nn.Linear(4, 16)
for_judge = torch.optim.Adam(judge.parameters())
for_maker = torch.optim.Adam(maker.parameters())
loader = DataLoader(Points(), batch_size=16)
for epoch in range(200):
    for real, _ in loader:
        made = maker(torch.randn(len(real), 4))
        for_judge.zero_grad()
        (judge(made.detach()).mean() - judge(real).mean()).backward()
        for_judge.step()
        for_maker.zero_grad()
        (-judge(made).mean()).backward()
        for_maker.step()

"""The cases of `torch_transfers`."""

from __future__ import annotations

silent = (
    """
        import torch
        mask = torch.ones(3).to(device)
        for x in l:
            loss.backward()
            opt.step()
        """,
    """
        import torch
        for x in l:
            m = torch.ones(3, device=d)
            loss.backward()
            opt.step()
        """,
    """
        import torch
        for x in l:
            m = torch.ones(3).to(torch.float16)
            loss.backward()
            opt.step()
        """,
)

fires = (
    """
        import torch
        for x in l:
            m = torch.ones(3).to(device)
            loss.backward()
            opt.step()
        """,
    """
        import torch
        from torch import nn
        class Net(nn.Module):
            def forward(self, x):
                return x + torch.arange(9).cuda()
        """,
    """
        import torch
        from torch import nn
        class Net(nn.Module):
            def forward(self, x):
                return x + torch.arange(len(x)).to(x.device)
        """,
)

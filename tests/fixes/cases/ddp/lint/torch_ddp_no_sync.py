"""The cases of `torch_ddp_no_sync`."""

from __future__ import annotations

silent = (
    """
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(m)
        for x in l:
            loss.backward()
            opt.step()
        """,
    """
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(m)
        for i, x in enumerate(l):
            with context(m.no_sync, i):
                loss.backward()
            if i % 4 == 3:
                opt.step()
        """,
    """
        import torch
        for i, x in enumerate(l):
            loss.backward()
            if i % 4 == 3:
                opt.step()
        """,
)

fires = (
    """
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(m)
        for i, x in enumerate(l):
            loss = m(x)
            loss.backward()
            if (i + 1) % 4 == 0:
                opt.step()
                opt.zero_grad()
        """,
    """
        import torch
        m = torch.nn.parallel.DistributedDataParallel(m)
        def main():
            for i, x in enumerate(l):
                m(x).backward()
                if i % N:
                    continue
                opt.step()
        """,
)

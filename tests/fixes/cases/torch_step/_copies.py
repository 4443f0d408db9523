"""What cases of `_copies` are made of."""

from __future__ import annotations

from rewriting import Example


def _copy(before: str, after: str, pinned: bool = False) -> Example:
    return Example(
        f"import torch\n\n\ndef step(x, device):\n    {before}\n    return x\n",
        f"import torch\n\n\ndef step(x, device):\n    {after}\n    return x\n",
        {"pinned": pinned},
    )


EXAMPLES = [
    _copy(
        "mask = ▸torch.ones(9, 9).to(device)◂.tril()",
        "mask = torch.ones(9, 9, device=device).tril()",
    ),
    _copy(
        "x = x + ▸torch.tensor([0.1, 0.2], dtype=torch.float32).to(device)◂",
        "x = x + torch.tensor([0.1, 0.2], dtype=torch.float32, device=device)",
    ),
    _copy(
        "seen = ▸torch.tril(torch.ones(9, 9)).bool()[None].to(x.device)◂",
        "seen = torch.tril(torch.ones(9, 9)).bool()[None].to(x.device)",
    ),
    _copy(
        "seen = ▸torch.tril(torch.ones(9, 9)).bool().cuda()◂",
        'seen = torch.tril(torch.ones(9, 9, device="cuda")).bool()',
    ),
    _copy("x = ▸x.to(device)◂", "x = x.to(device, non_blocking=True)", True),
    _copy("x = ▸x.cuda()◂", "x = x.cuda(non_blocking=True)", True),
    # not pinned, random numbers, another type, back to the host, made by the user's own code
    _copy("x = ▸x.to(device)◂", "x = x.to(device)"),
    _copy("x = ▸torch.randn(9).to(device)◂", "x = torch.randn(9).to(device)", True),
    _copy("x = ▸x.to(device, torch.half)◂", "x = x.to(device, torch.half)", True),
    _copy('x = ▸x.to("cpu")◂', 'x = x.to("cpu")', True),
    _copy("x = ▸x.to(torch.float16)◂", "x = x.to(torch.float16)", True),
    # to what another tensor is like; in pinned memory
    _copy("mask = ▸torch.ones(9, 9).to(x)◂", "mask = torch.ones(9, 9).to(x)"),
    _copy(
        "mask = ▸torch.ones(9, pin_memory=True).to(device)◂",
        "mask = torch.ones(9, pin_memory=True).to(device)",
    ),
    _copy("x = ▸noise(9).to(device)◂", "x = noise(9).to(device)", True),
    _copy("x = ▸x.cpu()◂", "x = x.cpu()", True),
]

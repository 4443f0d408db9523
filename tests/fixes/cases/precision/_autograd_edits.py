"""What cases of `_autograd_edits` are made of."""

from __future__ import annotations

from rewriting import Example, unmarked


def _of(text: str, after: str) -> Example:
    call = "\n\nloss = ▸model(x)◂\n"
    plain = unmarked(call)
    return Example(text + call, after + plain, data={"device": "cuda"})


OWN = """\
import torch


class Own(torch.autograd.Function):
    @staticmethod{}
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod{}
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight.t(), x.t() @ grad
"""

FORWARD = '\n    @torch.amp.custom_fwd(device_type="cuda")'

BACKWARD = '\n    @torch.amp.custom_bwd(device_type="cuda")'

LAYER = """\
import torch


class Head(torch.nn.Module):
    def forward(self, x):
        with torch.autocast("cuda", enabled=False):
            return self.head(x.float())
"""

EXAMPLES = [
    _of(OWN.format("", ""), OWN.format(FORWARD, BACKWARD)),
    _of(OWN.format(FORWARD, BACKWARD), OWN.format(FORWARD, BACKWARD)),
    _of(LAYER, LAYER),  # somebody wanted that
]

"""Loops that stay as they are, though their forward runs outside autocast."""

from __future__ import annotations

from fixes.cases.precision._autocast_examples import CLIPPED, CPU, CUDA, PLAIN, SCALED
from rewriting import Example

REFUSED = [
    Example.untouched(  # mixed already
        """\
import torch

for x, y in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(▸model(x)◂, y)
    ▸loss.backward()◂
""",
        CUDA,
    ),
    Example.untouched(  # float16, in a file that has a scaler
        PLAIN.replace("import torch\n", "import torch\nfrom torch.amp import GradScaler\n"), SCALED
    ),
    Example.untouched("for x, y in loader:\n    ▸criterion(▸model(x)◂, y).backward()◂\n", CUDA),
    Example.untouched(  # a loss that CUDA's autocast refuses
        """\
import torch

criterion = torch.nn.BCELoss()
for x, y in loader:
    loss = criterion(▸model(x)◂, y)
    ▸loss.backward()◂
""",
        CUDA,
    ),
    Example.untouched(  # NumPy has no bfloat16
        """\
for x, y in loader:
    out = ▸model(x)◂
    loss = criterion(out, y)
    ▸loss.backward()◂
    score(out.detach().numpy())
""",
        CPU,
    ),
    Example.untouched(  # what is given it anew may be computed in bfloat16 as well
        """\
for x, y in loader:
    out = ▸model(x)◂
    loss = criterion(out, y)
    out = head(y)
    ▸loss.backward()◂
    score(out.detach().numpy())
""",
        CPU,
    ),
    Example.untouched(  # the function updates as well, somewhere else
        """\
def step(x, y):
    out = ▸model(x)◂
    improve(criterion(out, y))
    optimizer.step()
    return out

def improve(loss):
    ▸loss.backward()◂
""",
        CUDA,
    ),
    Example.untouched(  # gradients are read, and would be scaled
        PLAIN + "        log(model.weight.grad)\n",
        SCALED,
    ),
    Example.untouched(  # clipped for each part of a batch
        """\
for i, (x, y) in enumerate(loader):
    loss = criterion(▸model(x)◂, y)
    ▸loss.backward()◂
    ▸torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)◂
    if i % 4 == 3:
        ▸optimizer.step()◂
""",
        CLIPPED,
    ),
    Example.untouched(  # two losses
        """\
for x, y in loader:
    out = ▸model(x)◂
    one = criterion(out, y)
    two = penalty(out)
    ▸one.backward()◂
    two.backward()
    ▸optimizer.step()◂
""",
        SCALED,
    ),
]

"""Loops that add up gradients, before and after `no_sync()`, and loops to leave alone."""

from __future__ import annotations

from rewriting import Example

PLAIN = """\
from torch.nn.parallel import DistributedDataParallel

model = {wrapped}
for i, (x, y) in enumerate(loader):
{body}    if (i + 1) % ACCUMULATE == 0:
        {step}
        optimizer.zero_grad()
"""

TRAINER = """\
def epoch(self):
    for x in self.loader:
        with autocast():
            x = x.to(self.device, non_blocking=True)
            loss = self.criterion({forward})
        {backward}
        if self.turn % self.many == self.many - 1 or self.turn == len(self.loader):
            scaler.unscale_(optimizer)
            {step}
            scaler.update()
        self.turn += 1
"""

TRAINER_AFTER = """\
import contextlib
def epoch(self):
    for x in self.loader:
        with contextlib.nullcontext() if self.turn % self.many == self.many - 1 or \
self.turn == len(self.loader) or not hasattr(self.model, "no_sync") else self.model.no_sync():
            with autocast():
                x = x.to(self.device, non_blocking=True)
                loss = self.criterion(self.model(x))
            scaler.scale(loss).backward()
        if self.turn % self.many == self.many - 1 or self.turn == len(self.loader):
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        self.turn += 1
"""

FUNCTION = """\
import contextlib


def train(model, loader, optimizer):
    for i, x in enumerate(loader):
        {body}
        if not (i + 1) % 4:
            {step}
"""


def _untouched(text: str, **parts: str) -> Example:
    """An example whose code must stay as it is; `parts` go into its places."""
    return Example.untouched(text.format(**parts))


def _counted_late() -> Example:
    text = """\
for x in loader:
    loss = {forward}
    {backward}
    turn += 1
    if turn % 4 == 0:
        {step}
"""
    return _untouched(
        text, forward="▸model(x)◂", backward="▸loss.backward()◂", step="▸optimizer.step()◂"
    )


EXAMPLES = [
    Example(
        before=PLAIN.format(
            wrapped="DistributedDataParallel(Net())",
            body="    loss = criterion(▸model(x)◂, y) / ACCUMULATE\n    ▸loss.backward()◂\n",
            step="▸optimizer.step()◂",
        ),
        after=PLAIN.replace(
            "import DistributedDataParallel\n",
            "import DistributedDataParallel\nimport contextlib\n",
        ).format(
            wrapped="DistributedDataParallel(Net())",
            body="    with contextlib.nullcontext() if (i + 1) % ACCUMULATE == 0 "
            'or not hasattr(model, "no_sync") else model.no_sync():\n'
            "        loss = criterion(model(x), y) / ACCUMULATE\n        loss.backward()\n",
            step="optimizer.step()",
        ),
    ),
    Example(  # mixed precision, a method, a condition of two parts
        before=TRAINER.format(
            forward="▸self.model(x)◂",
            backward="▸scaler.scale(loss).backward()◂",
            step="▸scaler.step(optimizer)◂",
        ),
        after=TRAINER_AFTER,
    ),
    Example(
        before=FUNCTION.format(body="▸model(x)◂.sum().▸backward()◂", step="▸optimizer.step()◂"),
        after=FUNCTION.format(
            body="with contextlib.nullcontext() if not (i + 1) % 4 "
            'or not hasattr(model, "no_sync") else model.no_sync():\n'
            "            model(x).sum().backward()",
            step="optimizer.step()",
        ),
    ),
    # the update stands under no condition
    _untouched(
        "for i, x in enumerate(loader):\n    loss = {f}\n    {b}\n    {s}\n",
        f="▸model(x)◂",
        b="▸loss.backward()◂",
        s="▸optimizer.step()◂",
    ),
    _counted_late(),
    # gradients are clipped after each batch
    _untouched(
        "for i, x in enumerate(loader):\n    loss = {f}\n    {b}\n"
        "    clip_grad_norm_(weights, 1.0)\n    if (i + 1) % 4 == 0:\n        {s}\n",
        f="▸model(x)◂",
        b="▸loss.backward()◂",
        s="▸optimizer.step()◂",
    ),
    # two backward passes
    _untouched(
        "for i, x in enumerate(loader):\n    loss = {f}\n    {b}\n    other(x).backward()\n"
        "    if (i + 1) % 4 == 0:\n        {s}\n",
        f="▸model(x)◂",
        b="▸loss.backward()◂",
        s="▸optimizer.step()◂",
    ),
    # a condition that is asked of a function
    _untouched(
        "for x in loader:\n    loss = {f}\n    {b}\n    if clock.turn() % 4 == 0:\n        {s}\n",
        f="▸model(x)◂",
        b="▸loss.backward()◂",
        s="▸optimizer.step()◂",
    ),
    # it knows no_sync
    _untouched(
        "for i, x in enumerate(loader):\n    with choose(model.no_sync, i):\n"
        "        loss = {f}\n        {b}\n    if (i + 1) % 4 == 0:\n        {s}\n",
        f="▸model(x)◂",
        b="▸loss.backward()◂",
        s="▸optimizer.step()◂",
    ),
    # an inner loop over the batches of one update
    _untouched(
        "for group in loader:\n    for x in group:\n        loss = {f}\n        {b}\n    {s}\n",
        f="▸model(x)◂",
        b="▸loss.backward()◂",
        s="▸optimizer.step()◂",
    ),
]

"""Loops before and after autocast."""

from __future__ import annotations

from typing import Any

from rewriting import Example

CPU: dict[str, Any] = {"device": "cpu", "dtype": "bfloat16", "scaler": "", "clip": False}
CUDA = {**CPU, "device": "cuda"}
SCALED = {**CUDA, "dtype": "float16", "scaler": 'amp.GradScaler("cuda")'}
CLIPPED = {**SCALED, "clip": True}

PLAIN = """\
import torch

for epoch in range(9):
    for x, y in loader:
        optimizer.zero_grad()
        out = ▸model(x)◂  # logits
        loss = criterion(out, y)
        ▸loss.backward()◂
        ▸optimizer.step()◂
"""


EXAMPLES = [
    Example(  # the loss on a line of its own
        before=PLAIN,
        after="""\
import torch

for epoch in range(9):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            out = model(x)  # logits
            loss = criterion(out, y)
        loss.backward()
        optimizer.step()
""",
        data=CPU,
    ),
    Example(  # NumPy is handed what a later forward returns, in float32, and numbers of classes
        before="""\
import torch

for epoch in range(9):
    out = ▸model(x)◂
    loss = criterion(out, y)
    ▸loss.backward()◂
    guessed = out.argmax(1).numpy()

out = model(other)
out = out.data.max(1)[1].numpy()
""",
        after="""\
import torch

for epoch in range(9):
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        out = model(x)
        loss = criterion(out, y)
    loss.backward()
    guessed = out.argmax(1).numpy()

out = model(other)
out = out.data.max(1)[1].numpy()
""",
        data=CPU,
    ),
    Example(  # forward and loss in one statement, on several lines, torch not imported
        before="""\
from torch import nn

def train(model, loader, optimizer):
    for x, y in loader:
        loss = nn.functional.cross_entropy(
            ▸model(x.cuda())◂,
            y.cuda(),
        )

        # one step
        ▸loss.backward()◂
        optimizer.step()
""",
        after="""\
from torch import nn
import torch

def train(model, loader, optimizer):
    for x, y in loader:
        with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(
                model(x.cuda()),
                y.cuda(),
            )

        # one step
        loss.backward()
        optimizer.step()
""",
        data=CUDA,
    ),
    Example(  # a model that returns its loss, and accumulation
        before="""\
import torch

for i, batch in enumerate(loader):
    loss = ▸model(**batch)◂.loss / 4
    ▸loss.backward()◂
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
        after="""\
import torch

for i, batch in enumerate(loader):
    with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
        loss = model(**batch).loss / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
        data=CUDA,
    ),
    Example(  # a function that returns the loss
        before="""\
import torch

def loss_of(model, batch):
    x, y = batch
    out = ▸model(x)◂
    return torch.nn.functional.mse_loss(out, y)

def train(model, loader, optimizer):
    for batch in loader:
        optimizer.zero_grad()
        ▸loss_of(model, batch).backward()◂
        optimizer.step()
""",
        after="""\
import torch

def loss_of(model, batch):
    x, y = batch
    with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
        out = model(x)
        return torch.nn.functional.mse_loss(out, y)

def train(model, loader, optimizer):
    for batch in loader:
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
""",
        data=CUDA,
    ),
    Example(  # float16
        before=PLAIN,
        after="""\
import torch

scaler = torch.amp.GradScaler("cuda")
for epoch in range(9):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast(device_type="cuda", dtype=torch.float16):
            out = model(x)  # logits
            loss = criterion(out, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
""",
        data=SCALED,
    ),
    Example(  # float16, accumulation, clipping; a function with the loop over epochs in it
        before="""\
import torch

def main(model, loader, optimizer):
    for epoch in range(9):
        for i, (x, y) in enumerate(loader):
            loss = criterion(▸model(x)◂, y)
            ▸(loss / 4).backward()◂
            if (i + 1) % 4 == 0:
                if CLIP:
                    ▸torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)◂
                ▸optimizer.step()◂  # update
                optimizer.zero_grad()
""",
        after="""\
import torch

def main(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(9):
        for i, (x, y) in enumerate(loader):
            with torch.autocast(device_type="cuda", dtype=torch.float16):
                loss = criterion(model(x), y)
            (scaler.scale(loss / 4)).backward()
            if (i + 1) % 4 == 0:
                if CLIP:
                    scaler.unscale_(optimizer)
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)  # update
                scaler.update()
                optimizer.zero_grad()
""",
        data=CLIPPED,
    ),
    Example(  # float16 in a function called for each epoch, an older PyTorch, a name taken
        before="""\
import torch
from sklearn.preprocessing import StandardScaler

scaler = StandardScaler()

class Trainer:
    def epoch(self, loader):
        for x, y in loader:
            loss = self.criterion(▸self.model(x)◂, y)
            ▸loss.backward()◂
            ▸self.optimizer.step()◂
            self.scheduler.step()
""",
        after="""\
import torch
from sklearn.preprocessing import StandardScaler

grad_scaler = torch.amp.GradScaler("cuda")

scaler = StandardScaler()

class Trainer:
    def epoch(self, loader):
        for x, y in loader:
            with torch.autocast(device_type="cuda", dtype=torch.float16):
                loss = self.criterion(self.model(x), y)
            grad_scaler.scale(loss).backward()
            grad_scaler.step(self.optimizer)
            grad_scaler.update()
            self.scheduler.step()
""",
        data=SCALED,
    ),
    Example(  # a context that is none on a CPU, a scaler that is off, micro-batches
        before="""\
import torch

ctx = nullcontext() if cpu else torch.amp.autocast(device_type="cuda", dtype=kind)
scaler = torch.cuda.amp.GradScaler(enabled=not cpu)
while True:
    for micro_step in range(steps):
        with ctx:
            logits, loss = ▸model(X, Y)◂
            loss = loss / steps
        X, Y = get_batch("train")
        ▸scaler.scale(loss).backward()◂
    scaler.step(optimizer)
""",
        after="""\
import torch

ctx = nullcontext() if cpu else torch.amp.autocast(device_type="cuda", dtype=kind)
scaler = torch.cuda.amp.GradScaler(enabled=not cpu)
while True:
    for micro_step in range(steps):
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            with ctx:
                logits, loss = model(X, Y)
                loss = loss / steps
        X, Y = get_batch("train")
        scaler.scale(loss).backward()
    scaler.step(optimizer)
""",
        data=CPU,
    ),
    Example(  # a region that was off, or of another device
        before="""\
import torch

class Trainer:
    def batch(self, x, y, train=True):
        with torch.set_grad_enabled(train), torch.amp.autocast("cuda", enabled=(self.amp)):
            _, loss = ▸self.model(x, y)◂
        if train:
            if self.amp:
                self.scaler.scale(loss).backward()
            else:
                ▸loss.backward()◂
        return loss.item()
""",
        after="""\
import torch

class Trainer:
    def batch(self, x, y, train=True):
        with torch.set_grad_enabled(train), torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            _, loss = self.model(x, y)
        if train:
            if self.amp:
                self.scaler.scale(loss).backward()
            else:
                loss.backward()
        return loss.item()
""",
        data=CPU,
    ),
    Example(  # what is between loss and backward stays as it is
        before="""\
import torch

def train(loader, model, criterion, optimizer, device):
    for i, (images, target) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        output = ▸model(images)◂
        loss = criterion(output, target)
        # measure accuracy
        top1.update(accuracy(output, target), images.size(0))
        optimizer.zero_grad()
        ▸loss.backward()◂
        optimizer.step()
""",
        after="""\
import torch

def train(loader, model, criterion, optimizer, device):
    for i, (images, target) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            output = model(images)
            loss = criterion(output, target)
        # measure accuracy
        top1.update(accuracy(output, target), images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
        data=CPU,
    ),
    Example(  # a library goes backward
        before="""\
import torch

for step, batch in enumerate(loader):
    outputs = ▸model(**batch)◂
    loss = outputs.loss
    loss = loss / 4
    accelerator.backward(loss)
    optimizer.step()
""",
        after="""\
import torch

for step, batch in enumerate(loader):
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        outputs = model(**batch)
        loss = outputs.loss
        loss = loss / 4
    accelerator.backward(loss)
    optimizer.step()
""",
        data=CPU,
    ),
    Example(  # a library calls the function, and goes backward with what it returns
        before="""\
import torch

class Net(Module):
    def training_step(self, batch, number):
        source, target = batch
        output = ▸self.model(source, target)◂
        loss = nll_loss(output, target.view(-1))
        return loss
""",
        after="""\
import torch

class Net(Module):
    def training_step(self, batch, number):
        source, target = batch
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            output = self.model(source, target)
            loss = nll_loss(output, target.view(-1))
            return loss
""",
        data=CPU,
    ),
]

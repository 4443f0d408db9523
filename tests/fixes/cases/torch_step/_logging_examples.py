"""Loops that log in each step, as they are and as they become."""

from __future__ import annotations

from fixes.cases.torch_step._sums_examples import EXAMPLES as SUMS
from rewriting import Example, unmarked
from trainperf.fixes.torch_step._lookers import SELDOM, SINK

OBSERVES = """\
def spread(model):
    found = {}
    for name, one in model.named_parameters():
        found[name] = ▸one.detach().cpu()◂.numpy().std()
    return found


"""


SEEN = "        seen = spread(model)\n"
SHOWN = "        if step:\n            print(seen)\n"


def _sunk(body: str, after: str = "", observes: str = OBSERVES) -> Example:
    """A loop that has what it observes where it looks at it, or `body` as it was."""
    head = "def main():\n    for step, x in enumerate(▸loader◂):\n        optimizer.step()\n"
    return Example(
        before=observes + head + body,
        after=unmarked(observes + head) + (after or body),
        data={"edits": [SINK], "loop": 1},
    )


EXAMPLES = [
    *SUMS,
    # what is computed in each step and looked at in some
    _sunk(
        """\
        seen = spread(model)  # of the weights
        total += 1
        if step % 50 == 0:
            low = min(seen.values())
            print(low)
        other()
""",
        """\
        total += 1
        if step % 50 == 0:
            seen = spread(model)  # of the weights
            low = min(seen.values())
            print(low)
        other()
""",
    ),
    # ... by more than that, before it, or after the loop
    _sunk("        seen = spread(model)\n        if seen:\n            print(seen)\n"),
    _sunk(f"{SEEN}{SHOWN}    use(seen)\n"),
    _sunk(f"{SEEN}        model = x\n{SHOWN}"),
    _sunk(f"{SEEN}        opt.step()\n{SHOWN}"),
    # ... with random numbers
    _sunk(
        f"{SEEN}{SHOWN}",
        observes="def spread(model):\n    return ▸model.bias.cpu()◂[torch.randint(3)]\n\n\n",
    ),
    Example(  # a function that logs, and a counter of the loop's
        before="""\
def log(file, step, loss):
    line = {"step": step}
    line["loss"] = ▸loss.item()◂
    file.write(str(line))


def main():
    step = 0
    for x, y in ▸loader◂:
        optimizer.step()
        log(file, step, loss)  # each step
        step += 1
""",
        after="""\
def log(file, step, loss):
    line = {"step": step}
    line["loss"] = loss.item()
    file.write(str(line))


def main():
    step = 0
    for x, y in loader:
        optimizer.step()
        if step % 50 == 0:
            log(file, step, loss)  # each step
        step += 1
""",
        data={"edits": [SELDOM], "loop": 1},
    ),
    Example(  # in the loop itself, enumerated
        before="""\
for i, (x, y) in enumerate(tqdm(▸loader◂)):
    optimizer.step()
    print(
        f"loss {▸loss.item()◂:.3f}",
    )
""",
        after="""\
for i, (x, y) in enumerate(tqdm(loader)):
    optimizer.step()
    if i % 50 == 0:
        print(
            f"loss {loss.item():.3f}",
        )
""",
        data={"edits": [SELDOM], "loop": 0},
    ),
    Example(  # a tracker's call, and what it reads for it
        before="""\
for images, masks in ▸loader◂:
    optimizer.step()
    global_step += 1
    ▸experiment.log({
        'train loss': loss.item(),
        'step': global_step,
    })◂
    pbar.update(images.shape[0])
""",
        after="""\
for images, masks in loader:
    optimizer.step()
    global_step += 1
    if global_step % 50 == 0:
        experiment.log({
            'train loss': loss.item(),
            'step': global_step,
        })
    pbar.update(images.shape[0])
""",
        data={"edits": [SELDOM], "loop": 0},
    ),
    Example(  # histograms that only the tracker gets; a mean that the loop prints stays
        before="""\
for images, masks in ▸loader◂:
    loss = criterion(model(images), masks)
    optimizer.step()
    global_step += 1
    mean = images.mean()
    histograms = {}
    for tag, value in model.named_parameters():
        tag = tag.replace('/', '.')
        if not torch.isinf(value).any():
            histograms[tag] = wandb.Histogram(value.data.cpu())
    ▸experiment.log({'train loss': loss.item(), **histograms})◂
print(mean)
""",
        after="""\
for images, masks in loader:
    loss = criterion(model(images), masks)
    optimizer.step()
    global_step += 1
    mean = images.mean()
    if global_step % 50 == 0:
        histograms = {}
        for tag, value in model.named_parameters():
            tag = tag.replace('/', '.')
            if not torch.isinf(value).any():
                histograms[tag] = wandb.Histogram(value.data.cpu())
        experiment.log({'train loss': loss.item(), **histograms})
print(mean)
""",
        data={"edits": [SELDOM], "loop": 0},
    ),
    Example(  # what the model is asked for, and what may be random, stays
        before="""\
for step, images in enumerate(▸loader◂):
    optimizer.step()
    seen = model(images)
    noise = torch.randn(3)
    ▸writer.add_scalar('seen', seen.mean() + noise.mean(), step)◂
""",
        after="""\
for step, images in enumerate(loader):
    optimizer.step()
    seen = model(images)
    noise = torch.randn(3)
    if step % 50 == 0:
        writer.add_scalar('seen', seen.mean() + noise.mean(), step)
""",
        data={"edits": [SELDOM], "loop": 0},
    ),
    Example(  # a loop without a loader
        before="""\
while step < steps:
    ▸optimizer.step()◂
    with torch.no_grad():
        writer.add_scalar("loss", ▸loss.item()◂, step)
    step += 1
""",
        after="""\
while step < steps:
    optimizer.step()
    with torch.no_grad():
        if step % 50 == 0:
            writer.add_scalar("loss", loss.item(), step)
    step += 1
""",
        data={"edits": [SELDOM], "loop": 0},
    ),
    *(
        Example(
            before=f"for step, x in enumerate(▸loader◂):\n    {before}\n",
            after=f"for step, x in enumerate(loader):\n    {after}\n",
            data={"edits": [SELDOM], "loop": 0},
        )
        for before, after in (
            ("losses.append(▸loss.item()◂)", "losses.append(loss.item())"),
            ("last = ▸loss.item()◂", "last = loss.item()"),
            ("scheduler.step(▸loss.item()◂)", "scheduler.step(loss.item())"),
            ("if step % 9 == 0: print(▸loss.item()◂)", "if step % 9 == 0: print(loss.item())"),
            ("weight.copy_(▸ema.cpu()◂)", "weight.copy_(ema.cpu())"),
        )
    ),
    Example.untouched(
        "def log(model):\n    print(▸model.size.item()◂)\n    model.decay_()\n\n\n"
        "for step in range(9):\n    ▸optimizer.step()◂\n    log(model)\n",
        {"edits": [SELDOM], "loop": 1},
    ),
    Example(  # no counter
        before="for x, y in ▸loader◂:\n    optimizer.step()\n    print(▸loss.item()◂)\n",
        after="for step, (x, y) in enumerate(loader):\n    optimizer.step()\n"
        "    if step % 50 == 0:\n        print(loss.item())\n",
        data={"edits": [SELDOM], "loop": 0},
    ),
    Example.untouched(
        "while left:\n    ▸optimizer.step()◂\n    print(▸loss.item()◂)\n    left.pop()\n",
        {"edits": [SELDOM], "loop": 0},
    ),
    Example(  # a method, and a counter that counts something else
        before="""\
class Run:
    def report(self, loss):
        self.file.write(f"{▸loss.item()◂}")

    def train(self):
        for x in ▸self.loader◂:
            if x.ok:
                self.steps += 1
                step += 1
            self.report(loss)
""",
        after="""\
class Run:
    def report(self, loss):
        self.file.write(f"{loss.item()}")

    def train(self):
        for batch_index, x in enumerate(self.loader):
            if x.ok:
                self.steps += 1
                step += 1
            if batch_index % 50 == 0:
                self.report(loss)
""",
        data={"edits": [SELDOM], "loop": 1},
    ),
]

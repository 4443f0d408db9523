"""Loops that log in each step, as they are and as they become."""

from __future__ import annotations

from trainperf.fixes import Example
from trainperf.fixes.torch_step._lookers import DETACH, SELDOM

EXAMPLES = [
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
    Example(  # a sum of losses
        before="""\
def epoch(loader):
    total = 0.0
    for x, y in ▸loader◂:
        optimizer.step()
        total += ▸loss.item()◂ * len(x)
    return total / len(loader)
""",
        after="""\
def epoch(loader):
    total = 0.0
    for x, y in loader:
        optimizer.step()
        total += loss.detach().float() * len(x)
    return float(total) / len(loader)
""",
        data={"edits": [DETACH], "loop": 0},
    ),
    Example(  # it is read in every step all the same
        before="""\
total = 0.0
for x, y in ▸loader◂:
    total += ▸loss.item()◂
    bar.set_postfix(loss=total)
""",
        after="""\
total = 0.0
for x, y in loader:
    total += loss.item()
    bar.set_postfix(loss=total)
""",
        data={"edits": [DETACH], "loop": 0},
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
    Example(  # it changes the weights
        before="def log(model):\n    print(▸model.size.item()◂)\n    model.decay_()\n\n\n"
        "for step in range(9):\n    ▸optimizer.step()◂\n    log(model)\n",
        after="def log(model):\n    print(model.size.item())\n    model.decay_()\n\n\n"
        "for step in range(9):\n    optimizer.step()\n    log(model)\n",
        data={"edits": [SELDOM], "loop": 1},
    ),
    Example(  # no counter
        before="for x in ▸loader◂:\n    optimizer.step()\n    print(▸loss.item()◂)\n",
        after="for x in loader:\n    optimizer.step()\n    print(loss.item())\n",
        data={"edits": [SELDOM], "loop": 0},
    ),
    Example(  # read in the loop, but seldom, and in a text
        before="""\
def main():
    for epoch in range(3):
        total = 0.0
        for step, x in enumerate(▸loader◂):
            total += ▸out.loss.item()◂ / 2
            if step % 100 == 99:
                history.append(total / step)
                print(f"{total / step:.3f}")
        print("epoch", total)
""",
        after="""\
def main():
    for epoch in range(3):
        total = 0.0
        for step, x in enumerate(loader):
            total += out.loss.detach().float() / 2
            if step % 100 == 99:
                history.append(float(total) / step)
                print(f"{total / step:.3f}")
        print("epoch", float(total))
""",
        data={"edits": [DETACH], "loop": 0},
    ),
    Example(  # a count of hits is no loss: it must stay a whole number
        before="hits = 0\nfor x in ▸loader◂:\n    hits += ▸right.sum().item()◂\n",
        after="hits = 0\nfor x in loader:\n    hits += right.sum().item()\n",
        data={"edits": [DETACH], "loop": 0},
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
        for x in self.loader:
            if x.ok:
                self.steps += 1
                step += 1
            self.report(loss)
""",
        data={"edits": [SELDOM], "loop": 1},
    ),
]

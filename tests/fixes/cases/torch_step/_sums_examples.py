"""Loops that add up, or show, a number of the device in each step, and what they become."""

from __future__ import annotations

from rewriting import Example
from trainperf.fixes.torch_step._lookers import DETACH, SELDOM


def _alone(text: str) -> Example:
    return Example.untouched(text, {"edits": [DETACH], "loop": 0})


EXAMPLES = [
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
    Example.untouched(
        """\
total = 0.0
for x, y in ▸loader◂:
    total += ▸loss.item()◂
    bar.set_postfix(loss=total)
""",
        {"edits": [DETACH], "loop": 0},
    ),
    Example(  # a progress bar that shows the loss and its mean
        before="""\
total = 0.0
pbar = tqdm(loader)
for (x, y) in ▸pbar◂:
    optimizer.step()
    total = total + ▸loss.item()◂
    pbar.set_description(f"epoch {epoch}")
    pbar.set_postfix({"loss": ▸loss.item()◂})
    pbar.write("mean " + str(total / len(loader)))
print(total / len(loader))
""",
        after="""\
total = 0.0
pbar = tqdm(loader)
for step, (x, y) in enumerate(pbar):
    optimizer.step()
    total = total + loss.detach().float()
    pbar.set_description(f"epoch {epoch}")
    if step % 50 == 0:
        pbar.set_postfix({"loss": loss.item()})
    if step % 50 == 0:
        pbar.write("mean " + str(float(total) / len(loader)))
print(float(total) / len(loader))
""",
        data={"edits": [DETACH, SELDOM], "loop": 0},
    ),
    Example(  # a name for the loss
        before="""\
total = 0.0
for step, (x, y) in enumerate(▸loader◂):
    optimizer.step()
    now = ▸loss.item()◂
    total += now * len(x)
    if step % 100 == 0:
        history.append(now)
print(total / len(loader))
""",
        after="""\
total = 0.0
for step, (x, y) in enumerate(loader):
    optimizer.step()
    now = loss.detach().float()
    total += now * len(x)
    if step % 100 == 0:
        history.append(float(now))
print(float(total) / len(loader))
""",
        data={"edits": [DETACH], "loop": 0},
    ),
    Example.untouched(
        "for x in ▸loader◂:\n    now = ▸loss.item()◂\n    if now < k:\n        k = now\n",
        {"edits": [DETACH], "loop": 0},
    ),
    Example(  # a count of hits
        before="""\
def epoch(loader):
    correct = total = 0
    for x, y in ▸loader◂:
        optimizer.step()
        total += y.size(0)
        correct += ▸(out.argmax(1) == y).sum().item()◂
    return 100 * correct / total
""",
        after="""\
def epoch(loader):
    correct = total = 0
    for x, y in loader:
        optimizer.step()
        total += y.size(0)
        correct += (out.argmax(1) == y).sum()
    return 100 * int(correct) / total
""",
        data={"edits": [DETACH], "loop": 0},
    ),
    Example(  # a list of losses
        before="""\
def epoch(loader):
    losses = []
    for x, y in ▸loader◂:
        optimizer.step()
        losses.append(▸loss.item()◂)
        if len(losses) % 100 == 0:
            print(losses[-1], f"{sum(losses) / len(losses):.3f}")
    return np.mean(losses)
""",
        after="""\
def epoch(loader):
    losses = []
    for x, y in loader:
        optimizer.step()
        losses.append(loss.detach())
        if len(losses) % 100 == 0:
            print(float(losses[-1]), f"{sum(losses) / len(losses):.3f}")
    return np.mean([float(each) for each in losses])
""",
        data={"edits": [DETACH], "loop": 0},
    ),
    Example(  # a list that becomes its mean
        before="""\
for epoch in range(3):
    losses = []
    for x, y in ▸loader◂:
        optimizer.step()
        losses.append(▸loss.item()◂)
    losses = np.average(losses)
    print("mean {:.3f}".format(losses))
""",
        after="""\
for epoch in range(3):
    losses = []
    for x, y in loader:
        optimizer.step()
        losses.append(loss.detach())
    losses = np.average([float(each) for each in losses])
    print("mean {:.3f}".format(losses))
""",
        data={"edits": [DETACH], "loop": 0},
    ),
    *(  # lists that stay as they are
        Example.untouched(text, {"edits": [DETACH], "loop": 0})
        for text in (
            # of the caller's
            "def epoch(losses):\n    for x in ▸loader◂:\n        losses.append(▸loss.item()◂)\n",
            # read in every step
            (
                "losses = []\nfor x in ▸loader◂:\n    losses.append(▸loss.item()◂)\n"
                "    bar.set_postfix(loss=losses[-1])\n"
            ),
            # who knows which it is
            (
                "losses = []\nfor x in ▸loader◂:\n    losses.append(▸loss.item()◂)\n"
                "    if x.last:\n        losses = sum(losses)\n"
            ),
            # sorted in place
            "losses = []\nfor x in ▸loader◂:\n    losses.append(▸loss.item()◂)\nlosses.sort()\n",
            # the tensor is changed afterwards
            "losses = []\nfor x in ▸loader◂:\n    losses.append(▸loss.item()◂)\n    loss /= 2\n",
        )
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
    Example.untouched(
        "hits = 0\nfor x in ▸loader◂:\n    hits += ▸right.sum().item()◂\n",
        {"edits": [DETACH], "loop": 0},
    ),
    # the text of a tensor is another than that of its number; a list that is cut
    _alone("total = 0.0\nfor x in ▸loader◂:\n    total += ▸loss.item()◂\nprint(f'{total=}')\n"),
    _alone("seen = []\nfor x in ▸loader◂:\n    seen.append(▸loss.item()◂)\ndel seen[:9]\n"),
    _alone("seen = []\nfor x in ▸loader◂:\n    seen.append(▸loss.item()◂)\n    loss.div_(2)\n"),
]

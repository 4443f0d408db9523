"""Loops that make their own batches, and those whose batches hang on the step before."""

from __future__ import annotations

from trainperf.fixes import Example
from trainperf.fixes.tf_data._ahead import AHEAD_OF

HELPER = AHEAD_OF.format(futures="concurrent.futures", collections="collections")
HEAD = "import numpy as np\n\n\n"
NEW_HEAD = (
    "import numpy as np\nimport collections\nimport concurrent.futures\n\n\n" + HELPER + "\n\n"
)


def _left(source: str) -> Example:
    return Example(before=HEAD + source, after=HEAD + source.replace("▸", "").replace("◂", ""))


EXAMPLES = [
    Example(
        before=HEAD
        + """\
for epoch in range(epochs):
    order = np.random.permutation(len(x))
    for i in range(0, len(x), 32):
        started = time.time()
        chosen = order[i : i + 32]
        loss = ▸model.train_on_batch(x[chosen], y[chosen])◂
        print(epoch, i, loss, time.time() - started)
""",
        after=NEW_HEAD
        + """\
for epoch in range(epochs):
    order = np.random.permutation(len(x))

    def batches():
        for i in range(0, len(x), 32):
            chosen = order[i : i + 32]
            yield i, chosen

    for i, chosen in ahead_of(batches()):
        started = time.time()
        loss = model.train_on_batch(x[chosen], y[chosen])
        print(epoch, i, loss, time.time() - started)
""",
    ),
    Example(  # a generator of the file's own
        before=HEAD
        + """\
def batches(x, y):
    for i in range(0, len(x), 32):
        yield np.flip(x[i : i + 32]), y[i : i + 32]


for step, (a, b) in enumerate(batches(x, y)):
    ▸train_step(a, b)◂
""",
        after=NEW_HEAD
        + """\
def batches(x, y):
    for i in range(0, len(x), 32):
        yield np.flip(x[i : i + 32]), y[i : i + 32]


for step, (a, b) in enumerate(ahead_of(batches(x, y))):
    train_step(a, b)
""",
    ),
    # batches of what the model says
    _left(
        "for _ in range(100):\n    action = model.predict(state)\n    state = play(action)\n"
        "    ▸model.train_on_batch(state, wanted)◂\n"
    ),
    # batches from what the loop collects
    _left(
        "for _ in range(100):\n    batch = random.sample(memory, 32)\n"
        "    loss = ▸model.train_on_batch(batch)◂\n    memory.append(loss)\n"
    ),
    # a place that is counted from batch to batch
    _left(
        "for _ in range(100):\n    batch = x[start : start + 32]\n    start = start + 32\n"
        "    ▸model.train_on_batch(batch)◂\n"
    ),
]

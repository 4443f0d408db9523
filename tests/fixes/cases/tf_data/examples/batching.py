"""Loops that make their own batches, and those whose batches hang on the step before."""

from __future__ import annotations

from rewriting import Example
from trainperf.fixes.tf_data.edits.ahead import AHEAD_OF, IN_PARALLEL

HELPER, TOGETHER = (
    each.format(futures="concurrent.futures", collections="collections")
    for each in (AHEAD_OF, IN_PARALLEL)
)
HEAD = "import numpy as np\n\n\n"
NEW_HEAD = (
    "import numpy as np\nimport collections\nimport concurrent.futures\n\n\n" + HELPER + "\n\n"
)


def _left(source: str, **data: int) -> Example:
    return Example.untouched(HEAD + source, data)


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
            yield i, x[chosen], y[chosen]

    for i, batch_x, batch_y in ahead_of(batches()):
        started = time.time()
        loss = model.train_on_batch(batch_x, batch_y)
        print(epoch, i, loss, time.time() - started)
""",
    ),
    Example(  # all of it in the call
        before=HEAD
        + "for i in range(n):\n    loss = ▸step(x[i * 8 : i * 8 + 8], None)◂\n    print(loss)\n",
        after=NEW_HEAD
        + "def batches():\n    for i in range(n):\n        yield x[i * 8 : i * 8 + 8]\n\n"
        "for batch_x in ahead_of(batches()):\n    loss = step(batch_x, None)\n    print(loss)\n",
    ),
    Example(  # what is not defined in the file may be a model
        before=HEAD + "for i in range(n):\n    a = augment(x[i * 8 : i * 8 + 8])\n"
        "    print(▸model.train_on_batch(a, y[i * 8])◂)\n",
        after=HEAD + "for i in range(n):\n    a = augment(x[i * 8 : i * 8 + 8])\n"
        "    print(model.train_on_batch(a, y[i * 8]))\n",
        data={"calls": 2},
    ),
    Example(  # several batches at once
        before=HEAD + "for i in range(n):\n    a = np.flip(x[i * 8 : i * 8 + 8])\n"
        "    loss = ▸model.train_on_batch(a, y[i * 8])◂\n",
        after=NEW_HEAD.replace(HELPER, TOGETHER)
        + "def make_batch(i):\n    a = np.flip(x[i * 8 : i * 8 + 8])\n    yield a, y[i * 8]\n\n"
        "for a, batch_x in in_parallel(make_batch, range(n), calls=2):\n"
        "    loss = model.train_on_batch(a, batch_x)\n",
        data={"calls": 2},
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
    # the same in functions, and in methods
    _left(
        "memory = []\n\n\ndef replay():\n    return random.sample(memory, 32)\n\n\n"
        "def act():\n    memory.append(play())\n\n\n"
        "for _ in range(100):\n    batch = replay()\n    loss = ▸model.train_on_batch(batch)◂\n"
        "    act()\n"
    ),
    _left(
        "class Agent:\n    def remember(self, loss):\n        self.memory.store(loss)\n\n"
        "    def learn(self):\n        for _ in range(100):\n"
        "            batch = self.memory.sample(32)\n"
        "            loss = ▸self.model.train_on_batch(batch)◂\n            self.remember(loss)\n"
    ),
    _left(
        "class Agent:\n    def replay(self):\n        return random.sample(self.memory, 32)\n\n"
        "    def remember(self, loss):\n        self.memory.append(loss)\n\n"
        "    def learn(self):\n        for _ in range(100):\n            batch = self.replay()\n"
        "            loss = ▸self.model.train_on_batch(batch)◂\n            self.remember(loss)\n"
    ),
    # a batch that is worked on further, behind what has to stay
    _left(
        "for i in range(9):\n    print(i)\n    a = fetch(i)\n"
        "    ▸model.train_on_batch(a[None], y[i])◂\n"
    ),
    # what others see as well: an object, a name given a value before, a list that a function fills
    _left(
        "for i in range(9):\n    run.place = i\n    a = np.flip(x[i])\n"
        "    ▸model.train_on_batch(a, run.place)◂\n"
    ),
    _left(
        "for i in range(9):\n    a = predict(model)\n    a = np.flip(x[i])\n"
        "    ▸model.train_on_batch(a)◂\n"
    ),
    _left(
        "def note(places, i):\n    places.append(i)\n\n\n"
        "for i in range(9):\n    note(seen, i)\n    a = np.flip(x[i])\n"
        "    ▸model.train_on_batch(a)◂\n",
        calls=2,
    ),
    # one array that is filled anew for each batch, by NumPy or by a function of the file
    _left(
        "buffer = np.empty((32, 5))\n\nfor i in range(9):\n"
        "    a = np.take(x, order[i], axis=0, out=buffer)\n    ▸model.train_on_batch(a)◂\n"
    ),
    _left(
        "def fill(i, out):\n    out[:] = x[i]\n    return out\n\n\nfor i in range(9):\n"
        "    a = fill(i, out=buffer)\n    ▸model.train_on_batch(a)◂\n",
        calls=2,
    ),
    # what the step gave is put into what batches are made of
    _left(
        "def note(into, loss):\n    into += loss\n\n\nfor i in range(9):\n"
        "    a = np.flip(x[i])\n    loss = ▸model.train_on_batch(a)◂\n    note(x, loss=loss)\n"
    ),
    _left(
        "for i in range(9):\n    a = np.flip(x[i])\n    loss = ▸model.train_on_batch(a)◂\n"
        "    np.copyto(x, loss)\n"
    ),
    # in a class, whose names a function does not see; a name that others see
    _left(
        "class Run:\n    size = 8\n    for i in range(9):\n        a = np.flip(x[i : i + size])\n"
        "        ▸model.train_on_batch(a)◂\n"
    ),
    _left(
        "def train():\n    global place\n    for i in range(9):\n        place = 8 * i\n"
        "        a = np.flip(x[place])\n        ▸model.train_on_batch(a)◂\n"
    ),
    # a place that is counted from batch to batch
    _left(
        "for _ in range(100):\n    batch = x[start : start + 32]\n    start = start + 32\n"
        "    ▸model.train_on_batch(batch)◂\n"
    ),
]

"""What cases of `_float32_edits` are made of."""

from __future__ import annotations

from rewriting import Example, unmarked

LOOP = """\
for x, y in ▸loader◂:
    loss = criterion(▸model(x)◂, y)
    loss.backward()
"""

HEAD = "import numpy as np\nimport torch\n\n"

PLAIN = unmarked(LOOP)


def _of(before: str, after: str, batch: str = "", loop: tuple[str, str] = (LOOP, "")) -> Example:
    return Example(
        HEAD + before + loop[0], HEAD + after + (loop[1] or PLAIN), data={"batch": batch}
    )


CONVERTED = """\
for x, y in loader:
    x, y = x.float(), y.float()
    loss = criterion(model(x), y)
    loss.backward()
"""

EXAMPLES = [
    _of(  # arrays of NumPy's usual type
        "model = ▸Net()◂.double()\n",
        "model = Net().float()\n",
        "all",
        (LOOP, CONVERTED),
    ),
    _of(  # an evaluation beside the training
        "model = ▸Net()◂.double()\n",
        "model = Net().float()\n",
        "all",
        (
            LOOP + "for u, v in held:\n    show(model(u), v)\n",
            CONVERTED + "for u, v in held:\n    u, v = u.float(), v.float()\n"
            "    show(model(u), v)\n",
        ),
    ),
    _of(  # the model in a function, by another name; samples; one array for each turn
        "def test(net, held):\n    for batch in held:\n        show(net(batch[0]))\n\n\n"
        "def tell(net):\n    return net(3)\n\n\ntell(str)\n"
        "model = ▸Net()◂.double()\n",
        "def test(net, held):\n    for batch in held:\n        show(net(batch[0].float()))\n\n\n"
        "def tell(net):\n    return net(3)\n\n\ntell(str)\n"
        "model = Net().float()\n",
        "all",
        (
            LOOP + "for i, u in named:\n    show(i, model(u))\ntest(model, held)\n"
            "for _ in range(3):\n    show(model(x_test))\n",
            CONVERTED + "for i, u in named:\n    show(i, model(u.float()))\ntest(model, held)\n"
            "for _ in range(3):\n    show(model(x_test.float()))\n",
        ),
    ),
    Example(  # a class whose evaluation is another method, and no loop
        before=HEAD
        + """\
class Trainer:
    def __init__(self):
        self.model = ▸Net()◂.double()

    def train(self):
        for x, y in ▸self.loader◂:
            loss = criterion(▸self.model(x)◂, y)
            loss.backward()

    def test(self):
        return sum(criterion(self.model(x), y) for x, y in self.held)
""",
        after=HEAD
        + """\
class Trainer:
    def __init__(self):
        self.model = Net().float()

    def train(self):
        for x, y in self.loader:
            x, y = x.float(), y.float()
            loss = criterion(self.model(x), y)
            loss.backward()

    def test(self):
        return sum(criterion(self.model(x.float()), y) for x, y in self.held)
""",
        data={"batch": "all"},
    ),
    _of(  # whole numbers are what it is to tell
        "torch.set_default_dtype(torch.float64)\nmodel = ▸Net()◂\n",
        "torch.set_default_dtype(torch.float32)\nmodel = Net()\n",
        "first",
        (
            LOOP + "show(model(x_test))\n",
            PLAIN.replace("model(x)", "model(x.float())") + "show(model(x_test.float()))\n",
        ),
    ),
    _of(  # the arrays are made so as well
        "model = ▸Net()◂\nmodel.double()\nx = x.astype(np.float64)\ny = y.astype('float64')\n",
        'model = Net()\nmodel.float()\nx = x.astype(np.float32)\ny = y.astype("float32")\n',
        "all",
    ),
    Example(  # by other names; what is no module of these
        before=f"import torch as th\nimport numpy as onp\n\nmodel = ▸Net()◂.to(th.float64)\n"
        f"x = x.astype(onp.float64)\nkind = kinds.double\n{LOOP}",
        after="import torch as th\nimport numpy as onp\n\nmodel = Net().to(th.float32)\n"
        f"x = x.astype(onp.float32)\nkind = kinds.double\n{PLAIN}",
        data={"batch": ""},
    ),
    _of(  # nothing in this file makes it so
        "model = ▸Net(settings)◂\n", "model = Net(settings)\n", "all"
    ),
]

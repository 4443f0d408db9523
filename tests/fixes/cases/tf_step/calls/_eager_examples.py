"""Eager calls of models, and what they become; most of them are left alone."""

from __future__ import annotations

from rewriting import Example

IMPORTS = "import numpy as np\nimport tensorflow as tf\n\n\n"


def _changed(before: str, after: str, count: int = 1) -> Example:
    return Example(IMPORTS + before, IMPORTS + after, {"rows": [1] * count})


def _untouched(source: str, rows: int | None = 1) -> Example:
    return Example.untouched(IMPORTS + source, {"rows": [rows]})


EXAMPLES = [
    # what was not seen to be the same as `predict_on_batch`
    _untouched("q = np.argmax(▸model(x)◂)\n", rows=None),
    _untouched("q = np.argmax(▸model(x, training=explore)◂)\n"),
    _untouched("q = np.argmax(▸model(x, mask)◂)\n"),
    _untouched("q = np.argmax(▸model(*x)◂)\n"),
    _untouched("q = np.argmax(▸(online or target)(x)◂)\n"),
    _untouched("q = np.argmax(▸model.__call__(x)◂)\n"),
    # a tensor is needed, or may be
    _untouched("▸model(np.zeros((1, 4)))◂\n"),
    _untouched("def q(x):\n    return ▸model(x)◂\n"),
    _untouched("q = reward + gamma * ▸model(x)◂\n"),
    _untouched("q = ▸model(x, training=False)◂\nprint(q)\n"),
    _untouched("q = ▸model(x, training=False)◂\nmemory.append(q[0])\n"),
    _untouched("for q in ▸model(x)◂:\n    print(q)\n"),
    _untouched("self.q = ▸model(x)◂\n"),
    _untouched("q = ▸model(x)◂\nq += 1\n"),
    _untouched("q = ▸model(x)◂\nshape = q.get_shape()\n"),
    _untouched("q = ▸model(x)◂\nknown = tf.is_tensor(q)\n"),
    # `q` may be another tensor there
    _untouched("q = ▸model(x)◂\nif late:\n    q = tf.zeros((1, 2))\na = q.numpy()\n"),
    # what NumPy makes of it would be the array itself
    _untouched("q = ▸model(x)◂\nt = np.squeeze(q)\nt[0] = 1.0\na = np.argmax(q)\n"),
    _changed(
        "t = ▸model(x[None], training=False)◂.numpy()[0]\n",
        "t = model.predict_on_batch(x[None])[0]\n",
    ),
    _changed("a = np.argmax(▸model(x)◂[0])\n", "a = np.argmax(model.predict_on_batch(x)[0])\n"),
    _changed(
        "a = tf.argmax(▸nets[0](x, training=False)◂[0]).numpy()\n",
        "a = tf.argmax(nets[0].predict_on_batch(x)[0]).numpy()\n",
    ),
    _changed(
        """\
class Agent:
    def act(self, state):
        q = ▸self.model(
            state[np.newaxis],  # one of them
            training=False,
        )◂
        if q.shape[0] > 1:
            return np.random.choice(2, p=q[0])
        return int(np.argmax(q[0])), float(q[0, 1]), q[0, 0].numpy()
""",
        """\
class Agent:
    def act(self, state):
        q = self.model.predict_on_batch(
            state[np.newaxis],  # one of them
        )
        if q.shape[0] > 1:
            return np.random.choice(2, p=q[0])
        return int(np.argmax(q[0])), float(q[0, 1]), q[0, 0].copy()
""",
    ),
    # what is read alone need not be copied, nor what is only looked at
    _changed(
        "q = ▸model(x)◂\nt = q.numpy()\nt[0] = 0\n",
        "q = model.predict_on_batch(x)\nt = q\nt[0] = 0\n",
    ),
    _changed(
        "q = ▸model(x)◂\na = np.argmax(q.numpy()[0])\nt = q.numpy()\n",
        "q = model.predict_on_batch(x)\na = np.argmax(q[0])\nt = q.copy()\n",
    ),
    _changed(
        "p, v = ▸model(x)◂\na = tf.random.categorical(p, 1).numpy()\n"
        "v = tf.concat([v, last], axis=0)\n",
        "p, v = model.predict_on_batch(x)\na = tf.random.categorical(p, 1).numpy()\n"
        "v = tf.concat([v, last], axis=0)\n",
    ),
    # one of two
    _changed(
        "a = np.argmax(▸model(x)◂)\nb = gamma * ▸target(x)◂\n",
        "a = np.argmax(model.predict_on_batch(x))\nb = gamma * target(x)\n",
        count=2,
    ),
]

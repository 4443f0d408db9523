"""How the kinds of work in the user's own code are named, and the library's own way to do it."""

from __future__ import annotations

from dataclasses import dataclass

from trainperf.model.facts import WorkKind
from trainperf.model.findings import Category


@dataclass(frozen=True)
class Words:
    """A kind of work: what it does, what to do instead, and what may change by that."""

    category: Category
    does: str  # after the name of a function: "updates tensors one by one in Python"
    advice: str
    torch: str = ""
    tensorflow: str = ""

    def snippet(self, framework: str) -> str:
        """The library's own way, for a framework; "" where there is no one call."""
        return self.torch if framework == "torch" else self.tensorflow


WORDS: dict[WorkKind, Words] = {
    "optimizer": Words(
        "host",
        "updates tensors one by one in Python",
        "Let the library update all tensors in a few calls: an optimizer of its own, or its "
        "operations on lists of tensors.",
        """\
optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)

# or your own rule, one call for all tensors instead of one for each
torch._foreach_mul_(momentum, beta)
torch._foreach_add_(momentum, gradients, alpha=1 - beta)
torch._foreach_add_(parameters, momentum, alpha=-lr)""",
        """\
optimizer = keras.optimizers.AdamW(learning_rate=lr)

# or your own rule, compiled: all updates are one graph
@tf.function
def update(gradients): ...""",
    ),
    "recurrence": Words(
        "model",
        "calls a cell for every step of the sequence in Python",
        "Give the whole sequence to the library's layer in one call; it loops outside Python. "
        "A cell of your own can be compiled, loop included.",
        """\
self.rnn = nn.LSTM(width, width, batch_first=True)  # nn.GRU, nn.RNN alike
outputs, state = self.rnn(x)  # x: (batch, time, width)""",
        """\
outputs = keras.layers.LSTM(units, return_sequences=True)(x)  # x: (batch, time, width)""",
    ),
    "evaluation": Words(
        "host",
        "evaluates the model inside the training loop",
        "Evaluate more rarely, or on fewer samples; all of it after an epoch.",
        """\
if step % eval_every == 0:  # such that it takes a few percent of the steps between
    evaluate(model, islice(loader, 20))""",
        """\
if step % eval_every == 0:  # such that it takes a few percent of the steps between
    evaluate(model, dataset.take(20))""",
    ),
    "metrics": Words(
        "host",
        "judges predictions in Python on the host",
        "Keep what the metric needs as tensors, and compute it once per epoch, or add up counts "
        "with tensor operations.",
        """\
predicted = outputs.detach().argmax(1)
confusion += torch.bincount(  # on the device; read it once per epoch
    targets * classes + predicted, minlength=classes**2
)""",
        """\
metric.update_state(targets, outputs)  # inside the compiled step; read it once per epoch""",
    ),
    "sample": Words(
        "input",
        "makes samples on the loop's own thread",
        "Let worker processes make them while the step runs, or prepare once what is the same in "
        "every epoch.",
        """\
loader = DataLoader(dataset, batch_size=batch_size, num_workers=4, persistent_workers=True)""",
        """\
dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)""",
    ),
    "other": Words(
        "host",
        "takes time of its own beside the model",
        "Do it more rarely, in array operations instead of loops, or on another thread while the "
        "next step runs.",
    ),
}
"""The words for each kind of work."""

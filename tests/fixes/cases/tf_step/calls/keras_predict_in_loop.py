"""The cases of `keras_predict_in_loop`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import evidence
from fixes.cases.tf_step.calls._model_calls import between_fits, in_steps, timed_in_place
from rewriting import Example

BETWEEN_FITS = between_fits("predict")

(CALLED,) = BETWEEN_FITS.spent

IN_STEPS = in_steps("predict")


def _untouched(call: str, rows: int = 1) -> Example:
    return Example.untouched(f"p = ▸{call}◂\n", {"rows": [rows]})


silent = [
    evidence(),
    evidence(outside_=replace(BETWEEN_FITS, spent=())),
    # a few calls: a set of data is predicted
    evidence(
        outside_=replace(BETWEEN_FITS, spent=(replace(CALLED, calls=1, seconds=0.15, rows=600),)),
    ),
    # calls that take long work on many batches
    evidence(outside_=replace(BETWEEN_FITS, spent=(replace(CALLED, calls=20),))),
    # nothing of it would be felt
    evidence(outside_=replace(BETWEEN_FITS, seconds=400.0)),
    # it is lean already
    evidence(
        outside_=replace(BETWEEN_FITS, spent=(replace(CALLED, name="predict_on_batch"),)),
    ),
    # what could stand for it was timed, and takes as long: the arithmetic of a large model
    evidence(outside_=timed_in_place(BETWEEN_FITS, ratio=1.02)),
]

fires = [
    evidence(outside_=BETWEEN_FITS),
    evidence(outside_=replace(BETWEEN_FITS, whole=False)),
    # a few calls, of single samples: an agent that acts, and learns every few turns
    evidence(
        outside_=replace(
            BETWEEN_FITS, seconds=0.5, spent=(replace(CALLED, calls=7.5, seconds=0.33),)
        )
    ),
    evidence(outside_=IN_STEPS),
    # hardly anything else takes time
    evidence(outside_=replace(IN_STEPS, spent=(replace(IN_STEPS.spent[0], seconds=0.1),))),
    # it gives other numbers in place: told of, and left as it is
    evidence(outside_=timed_in_place(BETWEEN_FITS, apart=0.2)),
    # what it is given was not seen to be one batch: told of, and left as it is
    evidence(outside_=replace(BETWEEN_FITS, spent=(replace(CALLED, rows=None),))),
]

examples = [
    Example(
        before="p = ▸model.predict(x[None], verbose=0)◂[0]\n",
        after="p = model.predict_on_batch(x[None])[0]\n",
        data={"rows": [1]},
    ),
    Example(
        before="""\
def act(self, state):
    if ready:
        return np.argmax(
            ▸self.target.predict(
                np.expand_dims(state, axis=0),  # one of them
                batch_size=1,
                verbose=False,
            )◂
        )
""",
        after="""\
def act(self, state):
    if ready:
        return np.argmax(
            self.target.predict_on_batch(np.expand_dims(state, axis=0))
        )
""",
        data={"rows": [1]},
    ),
    # one of two, as the other is a set of data
    Example(
        before="a = ▸model.predict([u, v])◂\nb = ▸model.predict(test)◂\n",
        after="a = model.predict_on_batch([u, v])\nb = model.predict(test)\n",
        data={"rows": [8, 10_000]},
    ),
    _untouched("model.predict(x, callbacks=[c])"),
    _untouched("model.predict(x, **how)"),
    _untouched("model.predict(x, 1, 0)"),
    _untouched("model.predict(x, steps=2)"),
    _untouched("model.predict(x, batch_size=4)", rows=8),
    _untouched("model.predict(x)", rows=64),
    _untouched("predict(x)"),
]

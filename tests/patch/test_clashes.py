"""Repairs that must not be made together: the one that comes second is named with the reason."""

from __future__ import annotations

import pytest

from rewriting import finding_of, script_of
from trainperf.fixes import by_id
from trainperf.model import Epoch, Finding
from trainperf.patch.patch import Edits

TEXT = """\
import tensorflow as tf

▸model.compile("sgd", "mse")◂
▸model.fit(ds, epochs=9)◂
"""
CALLS, EPOCHS = "keras_steps_per_execution", "keras_epoch_end"


def findings(steps: int, together: int) -> tuple[Finding, Finding]:
    _, (compiled, fitted) = script_of(TEXT)
    made = {
        CALLS: (compiled, {"data": {"steps": together}}),
        EPOCHS: (fitted, {"slices": Epoch(steps, 1.0)}),
    }
    first, second = (
        finding_of(
            by_id()[name], title="", text="", bound=2.0, bound_basis="", where=(where,), **more
        )
        for name, (where, more) in made.items()
    )
    return first, second


def read(path: str) -> bytes:
    plain = TEXT.replace("▸", "").replace("◂", "")
    if not path.endswith("/train.py"):
        raise FileNotFoundError(2, "No such file", path)
    return plain.encode()


@pytest.mark.parametrize("ids", [(CALLS, EPOCHS), (EPOCHS, CALLS)])
def test_epochs_that_keras_would_round_up_are_not_counted_in_calls_of_several_steps(ids):
    written = Edits("/project", by_id(), read).write(findings(36, 16), only=ids).patch
    assert written.findings == ids[:1]
    ((left, why),) = [(one.what, one.reason) for one in written.skipped]
    assert left == ids[1]
    assert why == "with 16 steps a call Keras would round epochs of 36 steps up"


def test_calls_that_divide_an_epoch_go_with_it():
    written = Edits("/project", by_id(), read).write(findings(32, 16), only=(CALLS, EPOCHS)).patch
    assert (written.findings, written.skipped) == ((CALLS, EPOCHS), ())


def test_each_alone_is_made():
    both = findings(36, 16)
    for one in (CALLS, EPOCHS):
        assert Edits("/project", by_id(), read).write(both, only=(one,)).patch.findings == (one,)

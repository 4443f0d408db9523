"""A model that is compiled anew between two calls of `fit` is traced anew, as another one is."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from trainperf.child.keras.calls import drive_train_function  # noqa: E402


def test_the_first_step_of_a_new_function_is_not_the_one_that_was_timed() -> None:
    same: list[bool] = []
    driver = SimpleNamespace(cycles=SimpleNamespace(step=same.append), serves=lambda model: True)
    loops: Any = SimpleNamespace(
        process=SimpleNamespace(off=False),
        depth=0,
        main=threading.get_ident(),
        training=SimpleNamespace(driver=driver),
        step_with_iterator=lambda *given, **facts: None,
        losses=None,
    )
    epochs = SimpleNamespace(begins=lambda: None)

    class Model:
        train_function: Any = None

    model, batches = Model(), iter(tf.data.Dataset.range(1))
    for _ in range(2):
        model.train_function = print  # as `compile` and `make_train_function` leave it
        for _ in range(2):  # two calls of `fit`
            drive_train_function(loops, model, epochs)
            model.train_function(batches)

    assert same == [False, True, False, True]

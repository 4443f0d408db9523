"""A Keras model is recorded as what trains it."""

import weakref
from types import SimpleNamespace

import keras
import pytest

from trainperf.child.tensorflow.models import _model


@pytest.fixture
def model():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile()  # as some do for `summary` or `save`; its optimizer is RMSprop
    return model


def described(model, *used):
    sites = {("compile", id(model)): {"file": "/w/train.py", "line": 3}}
    loops = SimpleNamespace(
        sites=sites, compile_arguments={}, optimizers=weakref.WeakSet(used), calls=None
    )
    return _model(SimpleNamespace(loops=loops), model)


def test_the_optimizer_of_a_compile_that_nothing_uses_is_not_the_one_that_trains(model):
    adam = keras.optimizers.Adam(3e-4)
    found = described(model, adam)
    assert (found["optimizer"], found["jit"], found["compile_where"]) == ("Adam", None, None)


def test_a_compiled_model_that_trains_has_its_own(model):
    for used in ((model.optimizer,), (model.optimizer, keras.optimizers.Adam()), ()):
        found = described(model, *used)
        assert (found["optimizer"], found["compile_where"]["line"]) == ("RMSprop", 3)

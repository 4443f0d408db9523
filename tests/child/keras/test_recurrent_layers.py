"""Recurrent layers made while they are observed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kit.child import Watcher
from trainperf.child.keras.calls import remember_built
from trainperf.child.process.patching import undo


def test_a_layer_of_a_cell_is_the_same_one_under_observation() -> None:
    keras = pytest.importorskip("keras")
    loops: Any = SimpleNamespace(process=Watcher(), sites={})
    remember_built(loops, keras.layers.RNN)
    try:
        layer = keras.layers.RNN(keras.layers.LSTMCell(4), return_sequences=True)
    finally:
        undo(keras.layers.RNN, "__init__")
    again = keras.layers.RNN.from_config(layer.get_config())
    assert again.return_sequences
    assert again.cell.units == 4
    assert len(loops.sites) == 1

"""Where a callback's own hooks are defined, as far as they are the user's."""

import functools
import json
from types import SimpleNamespace

from kit.child import Watcher
from trainperf.child.keras.callbacks import time_callbacks
from trainperf.child.tensorflow.facts import definitions


class Base:
    pass


def quietly(method):
    @functools.wraps(method)
    def inner(*args, **kwargs):
        return method(*args, **kwargs)

    return inner


class Decorated:
    @quietly
    def on_train_batch_end(self, batch, logs=None):
        pass


class OfALibrary:
    on_train_batch_end = json.JSONDecoder.decode


def test_hooks_that_are_not_the_users_own_are_left_out():
    assert definitions(Base) == {}
    assert definitions(Decorated) == {}
    assert definitions(OfALibrary) == {}


def test_what_we_call_ourselves_in_a_callback_is_not_its_cost():
    watcher = Watcher()
    training = SimpleNamespace(driver=SimpleNamespace(counts_callbacks=lambda: False))
    own = SimpleNamespace(own_s=1.0)
    loops = SimpleNamespace(process=watcher, training=training, callback_costs={}, in_place=own)

    class Fresh:
        def __init__(self, callbacks):
            self.callbacks = callbacks

    time_callbacks(loops, Fresh)

    def predicts(epoch, logs=None):
        watcher.clock.tick(2.5)
        own.own_s += 2.0

    given = Base()
    given.on_epoch_end = predicts
    Fresh([given])
    given.on_epoch_end(0)
    ((_, costs),) = loops.callback_costs.values()
    assert costs["on_epoch_end"] == [1, 0.5, 0.5]

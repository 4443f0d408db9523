"""Where a callback's own hooks are defined, as far as they are the user's."""

from types import SimpleNamespace

from kit.child import Watcher
from trainperf.child.keras.calls import time_callbacks


class Base:
    pass


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

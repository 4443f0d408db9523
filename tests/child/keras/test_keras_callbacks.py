"""Where a callback's own hooks are defined, as far as they are the user's."""

from types import SimpleNamespace

from kit.child import Watcher
from trainperf.child.keras.hooks import time_callbacks
from trainperf.child.tensorflow import facts


class Base:
    pass


GIVEN = """
class Lambda:
    def __init__(self, blend):
        self.on_train_batch_end = blend

    def on_train_batch_begin(self, batch): ...

def blend(batch): ...

given = Lambda(blend)
"""


def watched(loops):
    """A list of callbacks whose hooks are timed, as Keras makes one."""

    class Fresh:
        def __init__(self, callbacks):
            self.callbacks = callbacks

    time_callbacks(loops, Fresh)
    return Fresh


def test_functions_that_a_callback_was_given_have_their_places(users):
    made = users(GIVEN)
    loops = SimpleNamespace(process=Watcher(), callback_costs={}, calls=None)
    watched(loops)([made.given])
    (name, place), *others = facts._given(made.given).items()
    assert (name, place["function"], others) == ("on_train_batch_end", "blend", [])


def test_what_we_call_ourselves_in_a_callback_is_not_its_cost():
    watcher = Watcher()
    training = SimpleNamespace(driver=SimpleNamespace(plan=SimpleNamespace(phase="warmup")))
    own = SimpleNamespace(own_s=1.0)
    loops = SimpleNamespace(process=watcher, training=training, callback_costs={}, calls=own)
    listed = watched(loops)

    def predicts(epoch, logs=None):
        watcher.clock.tick(2.5)
        own.own_s += 2.0

    given = Base()
    given.on_epoch_end = predicts
    listed([given])
    given.on_epoch_end(0)
    ((_, costs),) = loops.callback_costs.values()
    assert costs["on_epoch_end"] == [1, 0.5, 0.5]

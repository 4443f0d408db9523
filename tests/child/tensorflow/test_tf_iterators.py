"""A leg lets go of used-up iterators beside its loop; the script's own run does not."""

import threading
from types import SimpleNamespace

import pytest
import tensorflow as tf

from trainperf.child.tensorflow import hooks
from trainperf.child.tensorflow.stages import batches_of_pass


class EagerTensor:
    """Stands for an iterator's resource: it is gone only when tf.data's thread lets it."""

    def __init__(self, gone, tuned):
        self.gone, self.tuned = gone, tuned

    def __del__(self):
        own = threading.current_thread() is threading.main_thread()
        if not own:
            self.tuned.wait(10)
        self.gone.append("in the loop" if own else "beside it")


def dropped(leg, many):
    class OwnedIterator:
        def __next__(self):
            return None

    training = SimpleNamespace(warm_up=object() if leg else None)
    loops = SimpleNamespace(training=training, process=None, batch=None)
    hooks.watch_iterators(loops, SimpleNamespace(OwnedIterator=OwnedIterator))
    gone, tuned = [], threading.Event()
    for _ in range(many):
        iterator = OwnedIterator()
        iterator._iterator_resource = EagerTensor(gone, tuned)
        del iterator
    at_once = list(gone)
    tuned.set()
    for _ in range(1000):
        if len(gone) == many:
            break
        threading.Event().wait(0.01)
    return at_once, sorted(gone)


@pytest.mark.parametrize(("leg", "many"), [(True, 2), (False, 1)])
def test_the_loop_waits_for_no_iterator_in_a_leg(leg, many):
    place = "beside it" if leg else "in the loop"
    assert dropped(leg, many) == ([] if leg else [place], [place] * many)


def test_no_more_than_a_few_buffers_are_there_at_a_time():
    at_once, gone = dropped(leg=True, many=hooks.MOST_GOING + 1)
    assert at_once == ["in the loop"]
    assert gone == ["beside it"] * hooks.MOST_GOING + ["in the loop"]


def elements():
    return tf.data.Dataset.range(600)


@pytest.mark.parametrize(
    ("dataset", "batches"),
    [
        (lambda: elements().shuffle(100).batch(10).repeat(), 60.0),
        (lambda: elements().batch(10).repeat(3).prefetch(2), 60.0),
        (lambda: elements().repeat().batch(7), 600 / 7),
        (lambda: elements().batch(10), None),
        (lambda: elements().filter(lambda number: number > 5).batch(10).repeat(), None),
        (lambda: [1, 2], None),
    ],
)
def test_the_batches_of_a_pass_over_what_is_repeated(dataset, batches):
    assert batches_of_pass(dataset()) == batches

"""The user's names hold so much of so many things."""

import sys
from collections import deque

import numpy as np

from trainperf.child.timing.soak import held as soak_held


class Node:
    def __init__(self, before=()):
        self.next_functions = [(one, 0) for one in before]


class Added(Node):
    pass


def tensor(grad_fn=None, shape=()):
    """As much of a tensor as is looked at."""
    kind = type("Tensor", (), {"__module__": "torch", "shape": shape, "grad_fn": grad_fn})
    return kind()


class Images:
    def __init__(self):
        self.cache = {}
        self.paths = ["a", "b"]


class Loader:
    """A library's: its module is none of the user's."""


Loader.__module__ = "collections"


SCRIPT = "/home/me/train.py"


def sizes(**names):
    """What is found by the names of a function of a script, and in the objects they lead to."""
    script = {"__file__": SCRIPT}
    exec(
        compile(f"def run(look, {', '.join(names)}):\n    return look()\n", SCRIPT, "exec"), script
    )
    return found(script["run"], **names)


def found(call, *args, **names):
    """What is found from within a call, but for what is this test's own."""
    looks = call(lambda: soak_held.held(sys._getframe(1)), *args, **names).values()
    own = [one for one in looks if one.scope.file == SCRIPT or one.scope.cls]
    return {(one.kind, one.name): one for one in own}


def test_containers_have_their_items_and_the_type_of_the_last():
    seen = sizes(losses=[0.5, 0.25], seen={1, 2, 3}, last=deque([1]))
    assert seen["container", "losses"].size == 2
    assert seen["container", "losses"].item == "float"
    assert seen["container", "seen"].size == 3
    assert seen["container", "last"].size == 1
    assert not seen["container", "losses"].graph


def test_attributes_of_the_users_objects_are_looked_up_in_their_class():
    one = sizes(data=Images())["container", "self.paths"]
    assert (one.scope.cls, one.size) == ("Images", 2)


def test_the_dataset_of_a_loader_is_found():
    loader = Loader()
    loader.dataset = Images()
    assert ("container", "self.cache") in sizes(loader=loader)


def test_what_a_library_object_holds_is_none_of_the_users():
    loader = Loader()
    loader.queue = [1, 2, 3]
    assert not sizes(loader=loader)


def test_lists_in_a_dictionary_are_found_by_their_key():
    assert sizes(history={"loss": [1, 2]})["container", "history['loss']"].size == 2


def test_arrays_have_their_elements():
    assert sizes(scores=np.zeros((3, 4)))["array", "scores"].size == 12


def test_a_list_of_results_keeps_their_graphs():
    assert sizes(losses=[tensor(Node())])["container", "losses"].graph
    assert not sizes(losses=[tensor()])["container", "losses"].graph


def test_a_sum_that_keeps_its_graph_has_its_terms():
    total = Node()
    for _ in range(5):
        total = Added([total, Node()])
    assert sizes(total=tensor(total))["graph", "total"].size == 5


def test_callbacks_in_a_loop_of_a_library_are_found():
    class Callbacks:
        callbacks = [Images(), Loader()]  # noqa: RUF012

    library = {}
    source = "def fit(look, callbacks):\n    return look()\n"
    exec(compile(source, "<keras>", "exec"), library)
    seen = found(library["fit"], Callbacks())
    assert {name for _, name in seen} == {"self.cache", "self.paths"}


def test_a_name_that_is_a_plain_value_is_nothing():
    assert not sizes(epoch=3, name="x", model=object(), function=len)


def test_open_files_are_counted_by_their_names(tmp_path):
    path = tmp_path / "log.txt"
    before = soak_held.open_files().get(str(path), 0)
    files = [path.open("a") for _ in range(3)]
    assert soak_held.open_files()[str(path)] == before + 3
    for one in files:
        one.close()

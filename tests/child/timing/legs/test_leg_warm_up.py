"""One leg at a time on a device: what a leg tells and asks before its first slice."""

import threading
from types import SimpleNamespace

import pytest

from kit.child import FakeProcess
from trainperf.child.tensorflow import hooks as tf_hooks
from trainperf.child.timing.legs import words as leg
from trainperf.child.timing.legs.words import WarmUp
from trainperf.child.torch import hooks as torch_hooks


@pytest.fixture
def words(tmp_path):
    made = leg.Words(str(tmp_path), create=True)
    yield made
    made.close()


@pytest.fixture
def told(words, tmp_path):
    return WarmUp(FakeProcess({"folder": str(tmp_path)}))


def loops(told):
    return SimpleNamespace(training=SimpleNamespace(warm_up=told), process=FakeProcess())


def test_a_leg_waits_for_its_turn_before_it_opens_its_device(told, words):
    opened = threading.Event()
    thread = threading.Thread(target=lambda: (told.before_device(), opened.set()))
    thread.start()
    while not words[leg.DEVICE]:
        pass
    assert not opened.wait(0.05)
    words[leg.GO] = 1
    assert opened.wait(10)
    thread.join()


def test_a_leg_whose_words_are_gone_goes_on(tmp_path):
    process = FakeProcess({"folder": str(tmp_path / "gone")}, lenient=True)
    told = WarmUp(process)
    told.before_device()
    told.compile_begins()
    assert "the words of a leg" in process.failures[0]


@pytest.mark.parametrize(("gpus", "turns"), [(["GPU:0"], 1), ([], 0)])
def test_tensorflow_waits_before_it_opens_gpus_only(told, gpus, turns):
    asked = []
    told.before_device = lambda: asked.append(1)

    class Context:
        _initialized = False

        def list_physical_devices(self, kind):
            return gpus

        def ensure_initialized(self):
            self._initialized = True

    tf_hooks.watch_context(loops(told), SimpleNamespace(Context=Context))
    context = Context()
    context.ensure_initialized()
    context.ensure_initialized()
    assert (len(asked), context._initialized) == (turns, True)


def test_a_leg_says_that_it_compiles_as_long_as_it_does(told, words):
    callback = pytest.importorskip("torch._dynamo.callback")
    handler = callback.CompilationCallbackHandler()
    torch_hooks.watch_compiling(loops(told), SimpleNamespace(callback_handler=handler))
    seen = [words[leg.COMPILES]]
    with handler.install_callbacks(callback.CallbackTrigger.DYNAMO, "0/0"):
        seen.append(words[leg.COMPILES])
    assert [*seen, words[leg.COMPILES]] == [0, 1, 0]

"""See Keras 3 train: `fit`, `train_on_batch`, callbacks, and where things were built."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ..process.patching import replace
from ..process.process import Process
from ..tensorflow.loops import TensorFlowLoops
from ..tensorflow.models import backend
from ..tensorflow.strategies.hooks import make_model
from ..timing.calls import InsteadOf
from ..timing.loops import Loops
from .callbacks import time_callbacks, time_logs
from .calls import count_calls, remember_call, remember_compile, remember_site, time_evaluation
from .eager_calls import EagerCalls
from .eager_epochs import EagerEpochs
from .epochs import Epochs
from .jax import watch_iterators
from .modules import HOOKS
from .on_batch import of_predict
from .steps import drive_train_function, make_train_on_batch, watch_apply


def hook(loops: Any, module: ModuleType) -> None:
    """Set the hooks of one Keras module that was just imported; `loops` are its backend's."""
    getattr(sys.modules[__name__], HOOKS[module.__name__])(loops, module)
    loops.process.record.write("hook", name=module.__name__)


def watch_callback(loops: TensorFlowLoops, module: Any) -> None:
    """Remember where callbacks are made."""
    remember_site(loops, module.Callback, "__init__")


def watch_callbacks(loops: TensorFlowLoops, module: Any) -> None:
    """Time the callbacks."""
    time_callbacks(loops, module.CallbackList)
    time_logs(loops, module.python_utils)


def watch_calls(loops: Any, module: Any) -> None:
    """See models being called from Python; of those that PyTorch runs there is no faster way."""
    if backend() == "tensorflow":
        EagerCalls(loops).watch(module.Model)


def watch_rnn(loops: TensorFlowLoops, module: Any) -> None:
    """Remember where recurrent layers are made."""
    remember_site(loops, module.RNN, "__init__")


def watch_optimizer(loops: TensorFlowLoops, module: Any) -> None:
    """See the weights being updated."""
    watch_apply(loops, module.BaseOptimizer, "apply")


def watch_pydataset(loops: TensorFlowLoops, module: Any) -> None:
    """Remember where datasets in Python are made."""
    remember_site(loops, module.PyDataset, "__init__")


def watch_compile(loops: TensorFlowLoops, module: Any) -> None:
    """Remember how models are compiled, and name the backend."""
    remember_compile(loops, module.Trainer)
    _name_backend(loops.process)


def _name_backend(process: Process) -> None:
    """Say which backend Keras trains with, where that is none that is observed."""
    name = backend()
    if name not in ("jax", "tensorflow", "torch"):
        process.record.write("unsupported", name=f"Keras on {name}", version="")


def watch_trainer(loops: TensorFlowLoops, module: Any) -> None:
    """See models being trained by `fit` and `train_on_batch`."""
    trainer = module.TensorFlowTrainer
    epochs = Epochs(loops)

    def make_function(original: Any) -> Any:
        def make_train_function(self: Any, force: bool = False) -> Any:
            result = original(self, force)
            drive_train_function(loops, self, epochs)
            return result

        return make_train_function

    def make_next(original: Any) -> Any:
        def __next__(self: Any) -> Any:  # noqa: N807
            return epochs.next(self, original)

        return __next__

    replace(trainer, "__init__", make_model(loops.strategies))
    replace(trainer, "make_train_function", make_function)
    replace(trainer, "train_on_batch", make_train_on_batch(loops))
    _watch_calls(loops, trainer, of_predict)
    replace(module.TFEpochIterator, "__next__", make_next)


def watch_torch_trainer(loops: Loops, module: Any) -> None:
    """See models being trained by `fit` on PyTorch."""
    _watch_calls(loops, module.TorchTrainer)
    EagerEpochs(loops, takes=True).watch(module.TorchTrainer, module.TorchEpochIterator)


def watch_jax_trainer(loops: Any, module: Any) -> None:
    """See models being trained by `fit` on JAX."""
    _watch_calls(loops, module.JAXTrainer)
    EagerEpochs(loops, takes=False).watch(module.JAXTrainer, module.JAXEpochIterator)
    replace(module.JAXEpochIterator, "_get_iterator", watch_iterators(loops))


def _watch_calls(loops: Any, trainer: Any, instead: InsteadOf | None = None) -> None:
    remember_call(loops, trainer, "fit")
    time_evaluation(loops, trainer)
    count_calls(loops, trainer, instead)

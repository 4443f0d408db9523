"""The calls by which libraries show a training or put it on record."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from types import FunctionType, MethodType
from typing import Any, NamedTuple


class Logger(NamedTuple):
    """Functions of a module, or methods of a class of it, by patterns of their names.

    With `called_back` a library calls what subclasses define.
    """

    module: str
    owner: str
    names: tuple[str, ...]
    called_back: bool = False


LOGGERS = (
    Logger("mlflow", "", ("log_*",)),
    Logger("wandb", "", ("log",)),
    Logger("wandb.sdk.wandb_run", "Run", ("log",)),
    Logger("wandb.sdk.data_types.histogram", "Histogram", ("__init__",)),
    Logger("wandb.sdk.data_types.image", "Image", ("__init__",)),
    Logger("tensorboardX.writer", "SummaryWriter", ("add_*", "flush")),
    Logger("torch.utils.tensorboard.writer", "SummaryWriter", ("add_*", "flush")),
    Logger("tqdm.std", "tqdm", ("refresh", "set_*", "update")),
    Logger("transformers.trainer", "Trainer", ("log",)),
    Logger("transformers.trainer_callback", "TrainerCallback", ("on_*",), called_back=True),
    *(
        each
        for package, fabric in (
            ("lightning.pytorch", "lightning.fabric"),
            ("pytorch_lightning", "lightning_fabric"),
        )
        for each in (
            Logger(f"{package}.core.module", "LightningModule", ("log", "log_dict")),
            Logger(f"{package}.callbacks.callback", "Callback", ("on_*",), called_back=True),
            Logger(f"{fabric}.loggers.logger", "Logger", ("log_metrics",), called_back=True),
        )
    ),
)
"""Names are those of mlflow 3, wandb 0.31, tensorboardX 2.6, PyTorch 2.13, tqdm 4.70,
transformers 5.23 and lightning 2.6."""

HAND_ON = ("CallbackHandler",)
"""Classes that are called back only to call others."""


class Found(NamedTuple):
    """A function that stands in `owner` under `name`, as it is called in a report.

    `library` is the one whose loop or function it is; with `called_back` that calls it.
    """

    owner: Any
    name: str
    said: str
    library: str
    called_back: bool


def imported() -> Iterator[Found]:
    """Yield what of `LOGGERS` this process has imported."""
    for logger in LOGGERS:
        module = sys.modules.get(logger.module)
        library = logger.module.partition(".")[0]
        owner: Any = getattr(module, logger.owner, None) if logger.owner else module
        owners = [] if owner is None or logger.called_back else [owner]
        if isinstance(owner, type):
            owners += [one for one in _subclasses(owner) if one.__name__ not in HAND_ON]
        for each in owners:
            for name, value in list(vars(each).items()):
                function = isinstance(value, (FunctionType, MethodType))
                if function and any(fnmatchcase(name, pattern) for pattern in logger.names):
                    yield Found(each, name, _said(each, name), library, logger.called_back)


def _subclasses(cls: type) -> Iterator[type]:
    below: list[type] = cls.__subclasses__()
    for each in below:
        yield each
        yield from _subclasses(each)


def _said(owner: Any, name: str) -> str:
    """The library, the class and the name: `wandb.Run.log`, `tqdm.update`, `wandb.Histogram`."""
    if not isinstance(owner, type):
        return f"{owner.__name__}.{name}"
    library = owner.__module__.partition(".")[0]
    words = [library, owner.__name__, *([] if name == "__init__" else [name])]
    return ".".join(words[1:] if library in (owner.__name__, "__main__") else words)

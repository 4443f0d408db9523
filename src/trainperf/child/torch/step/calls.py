"""The calls of a step by time: each moment belongs to one part of one step."""

from __future__ import annotations

import ast
import inspect
import sys
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, NamedTuple

from ...process import frames, turns
from ...process.frames import Place, site
from ...process.process import OWN_PACKAGE as OWN
from ...timing.device import HostClock, Mark
from ..batches import apart, leaves, mapped
from ..built.places import ModelCall, OptimizerCalls

SLACK_S = 0.01
"""A call that began so long before a step still counts for it: its clock is read later."""
LOG = "log"
"""What a library does to show a training or to put it on record."""
WITHIN = {
    "forward": ("optimizer", LOG),
    "backward": ("optimizer", "forward"),
    "optimizer": ("forward", "backward"),
    "zero_grad": ("optimizer", "forward", "backward"),
    "transfer": ("optimizer",),
    "graph": ("optimizer",),
    "sync": ("optimizer", LOG),
    LOG: ("optimizer",),
    "rest": ("optimizer",),
    "": ("optimizer",),
}
"""In which parts a part may stand of its own; elsewhere it belongs to what it stands in.
What an optimizer calls is its closure: forward and backward as elsewhere."""
SCALER = "scaler.step"
"""`GradScaler.step`: it takes time, but the update is the optimizer's step in it."""
TEXT = ("format", "print")
"""The calls by which a tensor goes into text."""


class Key(NamedTuple):
    """The key by which calls are summed; `of` is the id of the model or optimizer."""

    part: str
    what: str
    place: Place | None
    of: int = 0


@dataclass(slots=True, eq=False)
class Call:
    """A call that is under way or over; `reads` is how many tensors it has read.

    `carried` says that the step which it began in has ended.
    """

    part: str
    what: str
    place: Place | None
    of: int
    began: float
    reads: int = 0
    carried: bool = False

    @property
    def key(self) -> Key:
        return Key(self.part, self.what, self.place, self.of)


@dataclass(slots=True)
class Sum:
    """All calls of one kind."""

    seconds: float = 0.0
    calls: int = 0
    reads: int = 0


MODELS = 4
"""Calls are kept of so many models: they hold on to a batch each."""


class Ledger:
    """The calls under way, and the sums over the steps that have ended.

    Each edge of a part is a mark on the clock of the devices, so that what was queued counts
    for the part that queued it, and what is hidden behind it for none; nothing waits. `settle`
    reads the marks.
    """

    def __init__(self, device: HostClock) -> None:
        self.open: list[Call] = []
        self.steps = 0
        self.seconds = 0.0
        self.sums: defaultdict[Key, Sum] = defaultdict(Sum)
        self._device = device
        self._begun: list[Call] = []
        self._spans: list[tuple[Call, Mark, Mark]] = []
        self._unsettled: list[tuple[Mark, Mark, list[Call], list[tuple[Call, Mark, Mark]]]] = []
        self._at = Mark(0.0)

    def begin(self) -> None:
        """The first step begins: nothing before it is charged to a part."""
        self._at = self._device.mark()

    def takes(self, part: str) -> bool:
        """Whether a call that begins now is a part of its own."""
        return not self.open or self.open[-1].part in WITHIN[part]

    def enter(self, part: str, what: str, place: Place | None, of: int = 0) -> Call:
        """A part begins: what it stands in is charged up to here."""
        call = Call(part, what, place, of, self._edge().host)
        self.open.append(call)
        self._begun.append(call)
        return call

    def leave(self, call: Call) -> None:
        """A part ends, and with it whatever in it was left without a word."""
        if call not in self.open:
            return
        self._edge()
        while self.open.pop() is not call:
            pass

    def read(self) -> None:
        """A tensor is read on the host: by what is under way, if that looks on."""
        if self.open and self.open[-1].part == LOG:
            self.open[-1].reads += 1

    def add(self, part: str, seconds: float) -> None:
        """Charge a part with time that was measured elsewhere and ends now.

        Where work is queued it is charged with what passes on the devices since the last edge.
        """
        since, now = self._at, self._device.mark()
        if self._device.asynchronous:
            self._at = now
        else:
            since = Mark(now.host - seconds)
        call = Call(part, "", None, 0, now.host - seconds)
        self._begun.append(call)
        self._spans.append((call, since, now))

    def step_ended(self, began: Mark, ended: Mark, kept: bool = True) -> None:
        """Charge what was called between two marks to the step that ends now.

        With `kept` false nothing of it counts: something else than a step took place.
        """
        self._edge()
        if kept:
            self.steps += 1
            self._unsettled.append((began, ended, self._begun, self._spans))
        self._begun, self._spans = [], []
        self.open = [call for call in self.open if not call.carried]  # one that has raised
        for call in self.open:
            call.carried = True
        if not self._device.asynchronous:
            self.settle()

    def settle(self) -> None:
        """Read the marks of the steps that have ended; waits until they have passed."""
        unsettled, self._unsettled = self._unsettled, []
        for began, ended, begun, spans in unsettled:
            self.seconds += self._between(began, ended)
            beside = {id(call) for call in begun if call.began < began.host - SLACK_S}
            for call in begun:
                if call.part and id(call) not in beside:
                    total = self.sums[call.key]
                    total.calls += 1
                    total.reads += call.reads
            for call, first, last in spans:
                if call.part and id(call) not in beside:
                    self.sums[call.key].seconds += self._between(first, last)

    def _between(self, first: Mark, last: Mark) -> float:
        return self._device.at(last) - self._device.at(first)

    def _edge(self) -> Mark:
        now = self._device.mark()
        if self.open:
            self._spans.append((self.open[-1], self._at, now))
        self._at = now
        return now


class Seen:
    """The arguments of the calls of a step, and the settings that they are made under.

    `autocast` has the type of numbers of each place that calls a model whose output is derived:
    not of a teacher, nor of an evaluation.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.region: Any = None
        self.retains = False
        self.closure = False
        self.scales = False
        self.autocast: dict[Place | None, str] = {}
        self._models: dict[int, tuple[Any, Place | None, Any, set[Any]]] = {}
        self._steps: dict[int, Place] = {}
        self._trains: set[int] = set()

    def forward(self, call: Call, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        """An outermost module, the first of `args`, was called."""
        module, *arguments = args
        region, self.region = self.region, None
        first = next(iter(module.parameters()), None)
        if first is None or not self._torch.is_grad_enabled():
            return
        if module.training:
            self._trains.add(call.of)
        elif call.of in self._trains:
            return  # an evaluation that keeps its graph
        dtype: Any = ""
        if self._torch.is_autocast_enabled(first.device.type):
            dtype = self._torch.get_autocast_dtype(first.device.type)
        elif getattr(region, "_enabled", False):
            dtype = region.fast_dtype
        if any(leaf.requires_grad for leaf in leaves(output)):
            self.autocast[call.place] = str(dtype).rpartition(".")[2]
        if call.of in self._models or len(self._models) < MODELS:
            given = mapped((tuple(arguments), kwargs), apart)  # none keeps another's graph
            shapes = self._models[call.of][3] if call.of in self._models else set()
            shapes.add(tuple(tuple(leaf.shape) for leaf in leaves(given)))
            self._models[call.of] = weakref.ref(module), call.place, given, shapes

    def backward(self, call: Call, args: Any, kwargs: dict[str, Any]) -> None:
        names = ("tensors", "grad_tensors", "retain_graph", "create_graph")
        given = dict(zip(names, args, strict=False)) | kwargs
        self.retains |= bool(given.get("retain_graph") or given.get("create_graph"))

    def steps(self, call: Call, args: Any, kwargs: Any) -> None:
        """An optimizer's step begins; `args` has the optimizer first."""
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        self.closure |= callable(closure)
        if call.place is not None:
            self._steps[call.of] = call.place

    def scaler(self, call: Call, args: Any, kwargs: dict[str, Any]) -> None:
        """A gradient scaler is used; a disabled one does nothing."""
        self.scales |= bool(args[0].is_enabled())

    def hand_over(self, loops: Any) -> None:
        """Leave what the probes and the facts need, by ids of models and optimizers.

        The loop is about to be ended: its models may be held on to from here.
        """
        for key, (reference, place, (args, kwargs), shapes) in self._models.items():
            if (module := reference()) is not None:
                settings = self.autocast.get(place, ""), self.retains
                call = ModelCall(module, args, kwargs, site(place), len(shapes), *settings)
                loops.models.calls[key] = call
        for key, place in self._steps.items():
            loops.optimizer_calls.setdefault(key, OptimizerCalls()).step = site(place)


# What was seen of the steps that were taken apart, as events.

SCALES = (SCALER, "scaler.update")
"""Calls that read whether gradients overflowed, which is a scaler's task."""
COPIES = ("to", "cuda", "copy_")
"""Methods of a tensor that copy it to another device."""

_WRITES = frozenset(
    (
        *("add_scalar", "add_scalars", "debug", "error", "format", "info", "log", "log_metric"),
        *("log_metrics", "print", "set_description", "set_description_str", "set_postfix"),
        *("set_postfix_str", "warning", "write", "writerow"),
    )
)
"""Names of functions and methods whose arguments go into text."""


def record(
    ledger: Ledger, seen: Seen, waits: Mapping[Place, int], write: Callable[..., None]
) -> None:
    """Write the parts of a step, its waits and logs, and its calls, as events.

    Of the places that wait for a GPU those are left out that the hooks have timed, and what a
    gradient scaler reads.
    """
    write("torch_split", steps=ledger.steps, parts=_parts(ledger))
    timed = set()
    for key, total in ledger.sums.items():
        place, part = key.place, key.part
        if place is not None and (part in ("sync", "transfer") or key.what in SCALES):
            timed.add((place.f_code, place.f_lineno))
        fields: dict[str, Any] = {
            "what": key.what,
            "calls": total.calls / ledger.steps,
            "seconds": total.seconds / ledger.steps,
            "where": site(place),
        }
        if part == "sync" and place is not None:
            printed = key.what in TEXT or _goes_into_text(fields["where"])
            write("torch_sync", **fields, printed=printed)
        elif part == LOG:
            # Where it is called, or where a method begins that a library calls back.
            if place is not None and place.f_lasti == 0:
                fields["where"] = frames.definition(place.f_code)
            write("torch_log", **fields, reads=total.reads / ledger.steps)
    write("torch_calls", **_calls(ledger, seen))
    for place, calls in waits.items():
        if (place.f_code, place.f_lineno) not in timed:
            write("torch_wait", where=site(place), calls=calls / ledger.steps)


def _parts(ledger: Ledger) -> dict[str, list[Any]]:
    """Seconds and calls of each part that was seen, over all steps, and of the rest.

    Copies have the place of the dearest of them as well.
    """
    parts: dict[str, list[Any]] = {}
    for key, total in ledger.sums.items():
        if key.part != "rest":
            part = parts.setdefault(key.part, [0.0, 0])
            part[0] += total.seconds
            part[1] += total.calls if key.what != SCALER else 0
    known = sum(seconds for seconds, _ in parts.values())
    parts["rest"] = [max(0.0, ledger.seconds - known), 0]
    copied = _dearest(ledger, lambda key: key.part == "transfer" and key.what in COPIES)
    if copied is not None and (copies := site(copied)):
        parts["transfer"].append(copies)
    return parts


def _calls(ledger: Ledger, seen: Seen) -> dict[str, Any]:
    def where(wanted: Callable[[Key], bool]) -> dict[str, Any] | None:
        return site(_dearest(ledger, wanted))

    def each(what: str) -> float:
        sums = ledger.sums.items()
        return sum(total.calls for key, total in sums if key.what == what) / ledger.steps

    forward = _dearest(ledger, lambda key: key.part == "forward" and key.place in seen.autocast)
    if forward is None:  # reentrant checkpointing runs it without gradients
        forward = _dearest(ledger, lambda key: key.part == "forward")
    return {
        "forward": site(forward),
        "backward": where(lambda key: key.what == "backward"),
        "step": where(lambda key: key.what == "step"),
        "zero_grad": where(lambda key: key.part == "zero_grad"),
        "clip": where(lambda key: key.what == "clip"),
        "autocast": seen.autocast.get(forward, ""),
        "scaler": seen.scales,
        "backwards": each("backward"),
        "updates": each("step"),
        "retains_graph": seen.retains,
        "closure": seen.closure,
    }


def _dearest(ledger: Ledger, wanted: Callable[[Key], bool]) -> Place | None:
    """Where the longest of the calls that are wanted is made."""
    found = [(total.seconds, key) for key, total in ledger.sums.items() if wanted(key)]
    return max(found, key=lambda one: one[0])[1].place if found else None


def _goes_into_text(where: dict[str, Any] | None) -> bool:
    """Whether what is called at a site is printed, logged or put into an f-string there."""
    if where is None:
        return False
    line, end_line = where["line"], where.get("end_line") or where["line"]
    begins, ends = (line, where.get("col") or 0), (end_line, where.get("end_col") or 0)
    for node in turns.nodes_of(where["file"]):
        called = getattr(node, "func", None)
        name = getattr(called, "id", "") or getattr(called, "attr", "")
        if isinstance(node, ast.JoinedStr) or name in _WRITES:
            last = (node.end_lineno or 0, node.end_col_offset or 0)
            if (node.lineno, node.col_offset) <= begins and ends <= last:
                return True
    return False


# The calls by which libraries show a training or put it on record.


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


def imported() -> Iterator[tuple[Any, str, str, Callable[[], Place | None]]]:
    """Yield what of `LOGGERS` this process has imported: its owner and name, and both as words.

    And what says its place: where the user's source calls it, or defines what a library calls back.
    """
    for logger in LOGGERS:
        module, library = sys.modules.get(logger.module), logger.module.partition(".")[0]
        owner: Any = getattr(module, logger.owner, None) if logger.owner else module
        owners = [] if owner is None or logger.called_back else [owner]
        if isinstance(owner, type):
            owners += [cls for cls in _subclasses(owner) if cls.__name__ not in HAND_ON]
        for holder in owners:
            for name, value in list(vars(holder).items()):
                function = isinstance(value, (FunctionType, MethodType))
                if function and any(fnmatchcase(name, pattern) for pattern in logger.names):
                    place = (
                        partial(_head, value) if logger.called_back else partial(_through, library)
                    )
                    yield holder, name, _words(holder, name), place


def _head(function: Any) -> Place | None:
    """Where the user defines a function, None where a library does."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if isinstance(code, CodeType) and frames.is_users(code.co_filename):
        return Place(code, 0, code.co_firstlineno)
    return None


def _subclasses(cls: type) -> Iterator[type]:
    below: list[type] = cls.__subclasses__()
    for each in below:
        yield each
        yield from _subclasses(each)


def _words(owner: Any, name: str) -> str:
    """The library, the class and the name: `wandb.Run.log`, `tqdm.update`, `wandb.Histogram`."""
    if not isinstance(owner, type):
        return f"{owner.__name__}.{name}"
    library = owner.__module__.partition(".")[0]
    words = [library, owner.__name__, *([] if name == "__init__" else [name])]
    return ".".join(words[1:] if library in (owner.__name__, "__main__") else words)


def _through(library: str) -> Place | None:
    """Where the user's source calls a library; None if another one does."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if not frame.f_code.co_filename.startswith(OWN) and module.partition(".")[0] != library:
            break
        frame = frame.f_back
    return place_of(frame)


def place_of(frame: FrameType | None) -> Place | None:
    if frame is None or not frames.is_users(frame.f_code.co_filename):
        return None
    return Place(frame.f_code, frame.f_lasti, frame.f_lineno)

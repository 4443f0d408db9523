"""The objects that hold a training's settings in Transformers, Lightning and accelerate.

Where each was made and of what is noted when that happens; which of them the loop is of, when
all is timed. Nothing is imported for it, and a step costs nothing.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import sys
import weakref
from types import FrameType
from typing import Any, NamedTuple

from ..process import frames
from ..process.patching import after, around
from ..process.process import Attempt

OF_COMMAND = {
    "parse_args_into_dataclasses": "--",
    "parse_args_and_config": "--",
    "instantiate_trainer": "--trainer.",
}
"""Methods of parsers of the command, of Transformers, TRL and Lightning, with how the options
begin that become settings."""

OF_FILES = {"parse_json_file": "json_file", "parse_yaml_file": "yaml_file"}
"""Methods of `HfArgumentParser` (and of TRL's), with the argument that names a file."""


class Made(NamedTuple):
    """An object as it was made: `given` are its arguments, `settled` what became of them.

    `source` is the file that it was made of, or how the options begin.
    """

    library: str
    reference: weakref.ref[Any]
    where: dict[str, Any] | None
    made: str
    source: str
    given: dict[str, Any]
    settled: dict[str, Any]
    defaults: dict[str, Any]


def watch(loops: Any, module: Any) -> None:
    """Note what is made of the class that a library's module defines, if anybody asks for it."""
    if not loops.process.settings.get("trainers"):
        return
    if module.__name__ == "transformers.training_args":
        _watch_arguments(loops, module.TrainingArguments)
    elif module.__name__ == "accelerate.accelerator":
        _watch_constructor(loops, "accelerate", module.Accelerator)
    else:
        _watch_constructor(loops, "lightning", module.Trainer)


def _watch_arguments(loops: Any, cls: Any) -> None:
    """Note each object of a dataclass, of which subclasses have a constructor of their own."""
    fields = {one.name: one.default for one in dataclasses.fields(cls)}

    @around(loops.process, cls, "__post_init__")
    def __post_init__(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        given = {name: getattr(self, name, None) for name in fields}
        original(self, *args, **kwargs)
        _note(loops, "transformers", self, given, fields, settles=True)


def _watch_constructor(loops: Any, library: str, cls: Any) -> None:
    signature = inspect.signature(cls.__init__)
    defaults = {name: one.default for name, one in signature.parameters.items() if name != "self"}

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        given = defaults | signature.bind(self, *args, **kwargs).arguments
        _note(loops, library, self, given, defaults)

    after(loops.process, cls, "__init__", "where a trainer is made", made)


def _note(
    loops: Any,
    library: str,
    made: Any,
    given: dict[str, Any],
    defaults: dict[str, Any],
    settles: bool = False,
) -> None:
    with Attempt(loops.process, "where a trainer is made"):
        names = (loops.process.settings.get("trainers") or {}).get(library, ())
        settled = {name: getattr(made, name, None) for name in names} if settles else {}
        loops.trainers.append(
            Made(
                library,
                weakref.ref(made),
                *_origin(made),
                _plain(given, names),
                _plain(settled, names),
                _plain(defaults, names),
            )
        )


def _origin(made: Any) -> tuple[dict[str, Any] | None, str, str]:
    """The call of the user's that made an object, of what it is made, and of which file or options.

    Of a constructor of the user's own, that is its call of the library's.
    """
    frame: FrameType | None = sys._getframe(1)
    kind, source = "call", ""
    while frame is not None:
        name, of_made = frame.f_code.co_name, frames.first_argument(frame) is made
        if frames.is_users(frame.f_code.co_filename):
            if not (of_made and name == "__post_init__"):
                break
        elif name in OF_FILES:
            source = os.path.abspath(str(frame.f_locals.get(OF_FILES[name], "")))
            named = (os.path.abspath(word.rpartition("=")[2]) for word in sys.argv[1:])
            kind = "file" if source in named else "elsewhere"  # the command names it, or not
        elif name in OF_COMMAND:
            kind, source = "command", OF_COMMAND[name]
        elif kind == "call" and not (of_made or frames.is_ours(frame.f_code.co_filename)):
            kind = "elsewhere"
        words = frame.f_locals.get("args") if kind == "command" else None
        if isinstance(words, (list, tuple)) and list(words)[-1:] != sys.argv[1:][-1:]:
            kind = "elsewhere"  # a parser reads other words than those of the command
        frame = frame.f_back
    return frames.site(frame), kind, source


def _plain(values: dict[str, Any], names: Any) -> dict[str, Any]:
    """Those of `names` that are a number, a text, or None; of enumerations what they stand for."""
    found = {name: getattr(values[name], "value", values[name]) for name in names if name in values}
    return {
        name: value
        for name, value in found.items()
        if value is None or isinstance(value, (bool, int, float, str))
    }


def record(driver: Any) -> None:
    """Record the object that holds the settings of the loop under way, if it has one."""
    loops = driver.loops
    found = _of_callers(loops, sys._getframe(1))
    for one in reversed(loops.trainers) if found is None else ():
        # The last `Accelerator` that the user made and gave a model or an optimizer.
        prepared = one.reference() if (one.library, one.made) == ("accelerate", "call") else None
        if getattr(prepared, "_models", None) or getattr(prepared, "_optimizers", None):
            found = one, prepared
            break
    if found is None:
        return
    made, held = found
    settings = dict(made.given)
    for name, before in made.settled.items():  # what was set after it was made
        now = _plain({name: getattr(held, name, None)}, (name,))
        if now != {name: before}:
            settings.update(now)
    driver.record.write(
        "torch_trainer",
        library=made.library,
        cls=type(held).__name__,
        where=made.where,
        made=made.made,
        source=made.source,
        settings=settings,
        defaults=made.defaults,
    )


def _of_callers(loops: Any, frame: FrameType | None) -> tuple[Made, Any] | None:
    """The settings of the trainer among the callers."""
    while frame is not None:
        owner = frames.first_argument(frame)
        if frame.f_code.co_name == "_inner_training_loop":
            return _noted(loops, getattr(owner, "args", None))
        if type(owner).__name__ in ("_FitLoop", "FitLoop"):
            return _noted(loops, getattr(owner, "trainer", None))
        frame = frame.f_back
    return None


def _noted(loops: Any, held: Any) -> tuple[Made, Any] | None:
    for one in loops.trainers:
        if held is not None and one.reference() is held:
            return one, held
    return None

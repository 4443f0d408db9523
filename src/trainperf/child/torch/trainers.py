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
    """An object as it was made: `fields` of its event, `settled` what became of its arguments."""

    reference: weakref.ref[Any]
    fields: dict[str, Any]
    settled: dict[str, Any]


def watch(loops: Any, module: Any) -> None:
    """Note what is made of the class that a library's module defines, if anybody asks for it."""
    library, _, _ = module.__name__.partition(".")
    library = "lightning" if library == "pytorch_lightning" else library
    process, what = loops.process, "where a trainer is made"
    names = (process.settings.get("trainers") or {}).get(library, ())
    if not names:
        return

    def note(made: Any, given: dict[str, Any]) -> None:
        where, how, source = _origin(made)
        fields = {
            "library": library,
            "where": where,
            "made": how,
            "source": source,
            "settings": _plain(given, names),
            "defaults": _plain(defaults, names),
        }
        settled = _plain(vars(made), names) if library == "transformers" else {}
        loops.trainers.append(Made(weakref.ref(made), fields, settled))

    if library == "transformers":
        # A dataclass, of which subclasses have a constructor of their own.
        cls = module.TrainingArguments
        defaults = {field.name: field.default for field in dataclasses.fields(cls)}

        @around(process, cls, "__post_init__")
        def __post_init__(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            given = {name: getattr(self, name, None) for name in defaults}
            original(self, *args, **kwargs)
            with Attempt(process, what):
                note(self, given)

        return
    cls = module.Accelerator if library == "accelerate" else module.Trainer
    signature = inspect.signature(cls.__init__)
    defaults = {name: one.default for name, one in signature.parameters.items() if name != "self"}

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        note(self, defaults | signature.bind(self, *args, **kwargs).arguments)

    after(process, cls, "__init__", what, made)


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
    made = {id(held): (one, held) for one in driver.loops.trainers if (held := one.reference())}
    library, loop = frames.trainer_around()
    found = made.get(id(getattr(loop, "args" if library == "transformers" else "trainer", None)))
    for one, held in reversed(made.values()) if found is None else ():
        # The last `Accelerator` that the user made and gave a model or an optimizer.
        users = (one.fields["library"], one.fields["made"]) == ("accelerate", "call")
        if users and (getattr(held, "_models", None) or getattr(held, "_optimizers", None)):
            found = one, held
            break
    if found is None:
        return
    one, held = found
    now = _plain(vars(held), one.settled)  # what was set after it was made
    set_since = {name: value for name, value in now.items() if value != one.settled[name]}
    fields = {**one.fields, "settings": one.fields["settings"] | set_since}
    driver.record.write("torch_trainer", **fields, cls=type(held).__name__)

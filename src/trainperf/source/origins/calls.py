"""Which of the places that an argument may come from was live in a run."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.source.arguments import written
from trainperf.source.module import Module
from trainperf.source.origins import dictionaries
from trainperf.source.origins.tracing import Tracer
from trainperf.source.origins.values import (
    Contents,
    Node,
    Origin,
    Unknown,
    Value,
    known,
    same,
)


@dataclass(frozen=True)
class LeftOut:
    """An argument that the call leaves to its default, and the dictionaries it is given.

    `displays` are those that could name it, the likeliest first.
    """

    displays: tuple[Node, ...]


@dataclass(frozen=True)
class RecordedCall:
    """The arguments of a call as they took effect in the run, with the command that ran it.

    `defaults` are those of the arguments that the source may leave out. `given` are the options
    of the command, "@" for a file of further ones, `scripts` the files it runs; `reached` says
    that words at its end become arguments of the script.
    """

    arguments: Mapping[str, object] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    reached: bool = False

    @classmethod
    def of(cls, data: Mapping[str, Any], name: str, defaults: Mapping[str, object]) -> RecordedCall:
        """Return what a finding's data holds of it; `now` there is the argument `name`."""
        arguments = dict(data.get("arguments") or {})
        if "now" in data:
            arguments[name] = data["now"]
        given, scripts = (tuple(data.get(key) or ()) for key in ("given", "scripts"))
        return cls(arguments, defaults, given, scripts, bool(data.get("reached")))


def live(
    trace: Tracer, file: Module, call: ast.Call, name: str, position: int | None, ran: RecordedCall
) -> tuple[Origin | LeftOut, ...]:
    """Return where the value came from that the argument `name` of `call` had in a run.

    Several where the run does not tell which. Raises `CannotRewrite` where none of the places
    is a literal of that value, or what cannot be told may have given it as well.
    """
    node = written(call, name, position)
    if node is not None:
        return tuple(_told(trace.values(file, node), name, ran))
    found: list[Origin | LeftOut] = []
    states = [each for each in given(trace, file, call) if _may_be(trace, each, ran)]
    for state in states:
        if name in state.entries:
            found += _told(trace.of_entry(state, name), name, ran)
        elif state.open is not None:
            raise _no(state.open, name)
        elif name not in ran.arguments:
            raise CannotRewrite(f"the run did not tell what {name} was")
        else:
            found.append(LeftOut(state.displays[::-1]))  # the last to add to another first
    if not found:
        raise CannotRewrite(f"where {name} comes from does not go with what the run had")
    return tuple(_distinct(found))


class Elsewhere(CannotRewrite):
    """An argument that is chosen where no edit of the source can reach.

    `option` is the option of the command that chooses it by its value, "" for none.
    """

    def __init__(self, reason: str, option: str = "") -> None:
        super().__init__(reason)
        self.option = option


def _no(reason: Unknown, name: str) -> CannotRewrite:
    if reason.elsewhere:
        return Elsewhere(f"{reason.reason}: change {name} there")
    return CannotRewrite(f"{name} cannot be told from the source: {reason.reason}")


def given(trace: Tracer, file: Module, call: ast.Call) -> tuple[Contents, ...]:
    """Return what a call may be given as `**keywords`."""
    return dictionaries.given(trace, file, (each for each in call.keywords if each.arg is None))


def _told(values: Sequence[Value], name: str, ran: RecordedCall) -> list[Origin | LeftOut]:
    """Return the literals among values that the run had; raises where it may be another one."""
    for each in values:
        if isinstance(each, Unknown) and each.elsewhere:
            raise _no(each, name)
    option = max((one for each in values for one in each.options), key=len, default="")
    now = ran.arguments.get(name)
    found: list[Origin | LeftOut] = [each for each in known(values) if _had(each, name, ran)]
    if not found and option and type(now) is not bool:
        raise Elsewhere(f"{option} sets {name}: change it in the command", option)
    if not found and known(values) == list(values):
        raise CannotRewrite(f"no literal behind {name} is what it was in the run")
    # What is worked out from a number that is not 0, and gave the same, left it as it is.
    untold = [each for each in values if isinstance(each, Unknown)]
    other = [each for each in untold if not (found and each.derived and now)]
    if other:
        raise _no(other[0], name)
    return list(_distinct(found))


def _had(origin: Origin, name: str, ran: RecordedCall) -> bool:
    """Whether the run had this literal; None of one that stands for a default of PyTorch's."""
    if name not in ran.arguments:
        return False
    now, default = ran.arguments[name], ran.defaults.get(name)
    return same(origin.value, now) or (origin.value is None and bool(default) and default == now)


def _may_be(trace: Tracer, state: Contents, ran: RecordedCall) -> bool:
    """Whether the run may have had such keywords, by all the arguments that are known of it."""
    for name, now in ran.arguments.items():
        if name in state.entries:
            values = trace.of_entry(state, name)
            if len(known(values)) == len(values) and not any(
                same(each.value, now) for each in known(values)
            ):
                return False
        elif state.open is None and name in ran.defaults and not same(ran.defaults[name], now):
            return False
    return True


def _distinct(found: Sequence[Origin | LeftOut]) -> list[Origin | LeftOut]:
    kept: list[Origin | LeftOut] = []
    for each in found:
        if each not in kept:
            kept.append(each)
    return kept

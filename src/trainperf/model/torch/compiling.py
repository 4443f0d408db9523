"""Code that the user's own `torch.compile` compiled again, and where its graphs break."""

from __future__ import annotations

from dataclasses import dataclass

from trainperf.model.basics import Site


@dataclass(frozen=True)
class Blocks:
    """Modules of one class that a model holds in a list: code compiled for one serves for all.

    `path` leads to the list from the model, as source: `.layers`, `[0].h`; "" is the model itself.
    """

    path: str
    cls: str
    count: int


@dataclass(frozen=True)
class CompileCall:
    """A call of the user's that compiles: `torch.compile(model)`, `model.compile()`, a decorator.

    `dynamic` is what was given: None lets PyTorch find out which sizes change.
    """

    where: Site
    dynamic: bool | None = None


@dataclass(frozen=True)
class Recompiling:
    """Compilations inside the steps after the first that a guard which failed asked for.

    `function` is the one compiled most often, `reason` its last guard that failed, as PyTorch
    says it, `where` the user's line that made the guard, or else its head. `count` and `seconds`
    are of all functions, in `steps` steps; `lasting_s` is what compiling takes of each step that
    was timed as it is, of those after the warm-up that is. `once_s` is what fell into others.
    `limit` says that PyTorch compiles it no more: what is new runs without compiled code.
    """

    function: str
    count: int
    steps: int
    seconds: float
    reason: str = ""
    where: Site | None = None
    lasting_s: float = 0.0
    once_s: float = 0.0
    limit: bool = False


@dataclass(frozen=True)
class GraphBreak:
    """A line of the user's at which a graph of a training step ends, with PyTorch's reason.

    `skips` says that the function around it, or the rest of it, runs without compiled code.
    """

    where: Site
    reason: str
    skips: bool = False


@dataclass(frozen=True)
class Compiling:
    """All that was seen of compiling in the user's script; empty where it does not compile."""

    calls: tuple[CompileCall, ...] = ()
    recompiling: Recompiling | None = None
    breaks: tuple[GraphBreak, ...] = ()

"""The arguments of the calls of steps that were taken apart."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from ...process.frames import Place, site
from ..batches import apart, leaves, mapped
from .calls import EVALUATION, Call

MODELS = 4
"""Calls are kept of so many models: they hold on to a batch each."""


class Forward(NamedTuple):
    """A call of an outermost module."""

    part: str
    place: Place | None
    module: Any  # a weak reference
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class CallArguments:
    """Settings and arguments of the calls, by place or by id.

    A model whose forward is in evaluation mode, and whose output is derived before any
    other forward in training mode, is trained in evaluation mode: `trained` has such
    places.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.region: Any = None
        self.retains = False
        self.closure = False
        self.scales = False
        self.autocast: dict[Place | None, str] = {}
        self.recorded: dict[Place | None, bool] = {}
        self.trained: set[Place | None] = set()
        self._calls: dict[int, Forward] = {}
        self.zero_grads: dict[int, bool] = {}
        self.zero_grad_places: dict[int, Place] = {}
        self.step_places: dict[int, Place] = {}
        self._shapes: dict[int, set[Any]] = {}
        self._devices: dict[int, str] = {}
        self._forwards: list[Forward] = []

    # ------------------------------------------------------------- from the hooks

    def forward(
        self, call: Call, args: tuple[Any, ...], keywords: dict[str, Any], output: Any
    ) -> None:
        """An outermost module, the first of `args`, was called."""
        module, *arguments = args
        region, self.region = self.region, None
        if (device := self._devices.get(id(module))) is None:
            first = next(iter(module.parameters()), None)
            device = self._devices[id(module)] = "" if first is None else first.device.type
        if not device:
            return
        grad = self._torch.is_grad_enabled()
        if call.part == EVALUATION:
            recorded = grad and any(one.requires_grad for one in leaves(output))
            self.recorded[call.place] = self.recorded.get(call.place, False) or recorded
            if not recorded:
                return
        else:
            self._keep(module, call.place, tuple(arguments), keywords)
        dtype: Any = ""
        if self._torch.is_autocast_enabled(device):
            dtype = self._torch.get_autocast_dtype(device)
        elif getattr(region, "_enabled", False):
            dtype = region.fast_dtype
        self.autocast[call.place] = str(dtype).rpartition(".")[2]
        del self._forwards[:-MODELS]
        pending = call.part == EVALUATION
        self._forwards.append(
            Forward(
                call.part,
                call.place,
                weakref.ref(module),
                mapped(tuple(arguments), apart) if pending else (),
                mapped(keywords, apart) if pending else {},
            )
        )

    def backward(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        names = ("tensors", "grad_tensors", "retain_graph", "create_graph")
        given = dict(zip(names, args, strict=False)) | kwargs
        self.retains |= bool(given.get("retain_graph") or given.get("create_graph"))
        forwards, self._forwards = self._forwards, []
        if forwards and all(one.part == EVALUATION for one in forwards):
            last = forwards[-1]
            self.trained.add(last.place)
            module = last.module()
            if module is not None:
                self._keep(module, last.place, last.args, last.kwargs)

    def steps(self, call: Call, args: Any, kwargs: Any) -> None:
        """An optimizer's step begins; `args` has the optimizer first."""
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        self.closure |= callable(closure)
        if call.place is not None:
            self.step_places[call.of] = call.place

    def zero_grad(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """An optimizer's `zero_grad` is called."""
        call.of = id(args[0])
        self.zero_grads[call.of] = bool(args[1] if len(args) > 1 else kwargs.get("set_to_none", 1))
        if call.place is not None:
            self.zero_grad_places[call.of] = call.place

    def scaler(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A gradient scaler is used; a disabled one does nothing."""
        self.scales |= bool(args[0].is_enabled())

    # --------------------------------------------------------------- asked for later

    def hand_over(self, loops: Any) -> None:
        """Leave what the probes and the facts need, by ids of models and optimizers.

        The loop is about to be ended: its models may be held on to from here.
        """
        loops.model_sites = {}
        for key, call in self._calls.items():
            module = call.module()
            if module is not None:
                loops.model_calls[key] = (module, call.args, call.kwargs)
                loops.model_sites[key] = site(call.place)
                loops.shapes[key] = len(self._shapes[key])
        loops.set_to_none.update(self.zero_grads)
        for found, sites in (
            (self.zero_grad_places, loops.zero_grad_sites),
            (self.step_places, loops.step_sites),
        ):
            sites.update({key: site(place) for key, place in found.items()})

    def has_weights(self, of: int) -> bool:
        """Whether a module that was called has parameters; a loss mostly has none."""
        return bool(self._devices.get(of))

    # -------------------------------------------------------------------- internal

    def _keep(
        self, module: Any, place: Place | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        key = id(module)
        if key not in self._calls and len(self._calls) >= MODELS:
            return
        args, kwargs = mapped((args, kwargs), apart)  # of which none keeps another model's graph
        self._calls[key] = Forward("forward", place, weakref.ref(module), args, kwargs)
        shapes = tuple(tuple(one.shape) for one in leaves((args, kwargs)))
        self._shapes.setdefault(key, set()).add(shapes)

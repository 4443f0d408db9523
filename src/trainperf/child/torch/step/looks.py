"""What the operators of a line are given in traced steps: zeros, rows of a table, the same again.

Of attention PyTorch is asked which kernel it takes, and why none that is fused.

No tensor is kept alive: what is remembered of one is a weak reference and its version.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..devices import capturing

LARGE = 2**17
"""Elements of an operand from which its zeros are counted."""
PRODUCTS = frozenset(
    (
        *("addbmm", "addmm", "addmv", "baddbmm", "bmm", "einsum", "linear", "matmul", "mm", "mv"),
        *("__matmul__", "__rmatmul__"),
    )
)
ATTENTION = "scaled_dot_product_attention"
TAKEN_BY_PLACE = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
"""Its arguments that may be given by their places."""
MATH = 0
"""The back end that is no fused kernel, as `torch.nn.attention.SDPBackend` counts them."""
LOOK_UPS = {"embedding": 6, "embedding_bag": 7}
"""Functions that look up rows, and the place of `sparse` among their arguments."""
RANDOM = (
    *("rand", "dropout", "bernoulli", "multinomial", "normal", "uniform", "poisson", "attention"),
    *("exponential", "geometric", "cauchy", "rrelu", "gumbel", "empty", "apply"),
)
"""Stands in the names of functions whose result may be another one each time."""
COPIES = frozenset(
    ("clone", "detach", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "to")
)
"""Functions whose result is wanted anew, as a rule, because it is written into."""

MOST_CALLS = 64
"""So many calls of a line are compared between steps: one with more is a loop's."""
MOST_OPERANDS = 64
MOST_INDICES = 2**22
MOST_SHARE = 0.1
"""Looking may take so much of the time of the steps, or `LEAST_S` where they are short."""
LEAST_S = 0.01
MOST_ELEMENTS = 2**22
"""Zeros are counted in every row of an operand with so many elements, else in some rows."""
SAMPLED = 64
"""So many elements of a tensor are compared as well: its version does not tell of all writes."""


class Unknown(Exception):  # noqa: N818 - names an outcome
    """Whether a call is given the same as in another step cannot be told."""


@dataclass
class Looks:
    """What was seen of one line: large operands, look-ups, and its calls in each step."""

    operands: dict[tuple[Any, ...], _Operand] = field(default_factory=dict)
    rows: dict[int, _Rows] = field(default_factory=dict)
    calls: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    unfused: str | None = None
    differs: bool = False
    works: bool = False  # a call that is no mere copy had a tensor


class _Operand(NamedTuple):
    tensor: Any  # a weak reference to it
    version: int
    size: int
    steps: set[int]


class _Rows(NamedTuple):
    of: int
    width: int
    weight: int
    sparse: bool
    used: list[Any]


class Observer:
    """Looks at what calls are given, as long as that takes little of the steps."""

    def __init__(self) -> None:
        self._torch: Any = sys.modules["torch"]
        self._known: dict[int, tuple[weakref.ref[Any], int, int]] = {}
        self._new = 0
        self._multiplied: set[int] = set()
        self._spent_s = 0.0
        self._since: float | None = None
        self.on = True

    def before(self, looks: Looks, name: str, step: int, args: Any, kwargs: Any) -> int | None:
        """Look at a call that is made now, in a step by number; the value of what it will return.

        None where that is not known. Raises nothing that a tensor of an odd kind does.
        """
        began = time.perf_counter()
        if self._since is None:
            self._since = began
        elif self._spent_s > max(LEAST_S, MOST_SHARE * (began - self._since)):
            self.on = False
        if not self.on or capturing():
            return None
        try:
            if name in PRODUCTS:
                self._product(looks, step, args)
            elif name == ATTENTION and step == 0:
                looks.unfused = looks.unfused or self._unfused(args, kwargs)
            elif name in LOOK_UPS and step == 0:
                self._look_up(looks, LOOK_UPS[name], args, kwargs)
            return self._call(looks, name, step, args, kwargs)
        except Exception:  # of tensors that have no storage, no version, no plain shape
            looks.differs = True
            return None
        finally:
            self._spent_s += time.perf_counter() - began

    def after(self, value: int, args: Any, result: Any) -> None:
        """The call returned `result`: what it computes of what is the same is the same."""
        many = result if isinstance(result, (tuple, list)) else (result,)
        for number, tensor in enumerate(many[:MOST_OPERANDS]):
            if isinstance(tensor, self._torch.Tensor) and all(tensor is not one for one in args):
                self._put(tensor, hash((value, number)))

    def _product(self, looks: Looks, step: int, args: Any) -> None:
        for tensor in args:
            if not isinstance(tensor, self._torch.Tensor) or tensor.numel() < LARGE:
                continue
            self._multiplied.add(tensor.data_ptr())
            if not tensor.is_floating_point() or tensor.layout != self._torch.strided:
                continue
            root: Any = tensor._base if tensor._is_view() else tensor
            key = (id(root), tensor.data_ptr(), tuple(tensor.shape))
            known = looks.operands.get(key)
            if known is not None and known.tensor() is root and known.version == root._version:
                known.steps.add(step)
            elif len(looks.operands) < MOST_CALLS:
                reference = weakref.ref(root)
                looks.operands[key] = _Operand(reference, root._version, tensor.numel(), {step})

    def _unfused(self, args: Any, kwargs: Any) -> str | None:
        """What keeps attention from a fused kernel, by its arguments; None where it has one.

        All of it that has to go, with commas between. Autocast gives its tensors one type.
        """
        given: dict[str, Any] = dict(zip(TAKEN_BY_PLACE, args, strict=False)) | kwargs
        device = given["query"].device.type
        if self._torch.is_autocast_enabled(device):
            dtype = self._torch.get_autocast_dtype(device)
            for name, value in given.items():
                if hasattr(value, "dtype") and value.is_floating_point():
                    given[name] = value.to(dtype)
        if not self._math(given):
            return None
        needed = list(CHANGES)
        if self._math(_changed(given, needed)):
            backends = self._torch.backends.cuda
            on = (backends.flash_sdp_enabled, backends.mem_efficient_sdp_enabled)
            return "type or shape" if any(enabled() for enabled in on) else "off"
        for name in CHANGES:
            less = [other for other in needed if other != name]
            if not self._math(_changed(given, less)):
                needed = less
        return ", ".join(needed)

    def _math(self, given: dict[str, Any]) -> bool:
        return bool(self._torch._fused_sdp_choice(**given) == MATH)

    def _look_up(self, looks: Looks, place: int, args: Any, kwargs: Any) -> None:
        indices, weight = args[0], args[1]
        if not weight.requires_grad or indices.numel() > MOST_INDICES:
            return
        sparse = bool(args[place] if len(args) > place else kwargs.get("sparse"))
        new = _Rows(weight.shape[0], weight.shape[1], weight.data_ptr(), sparse, [])
        rows = looks.rows.setdefault(id(weight), new)
        if len(rows.used) < MOST_CALLS:
            rows.used.append(self._torch.unique(indices.detach()))

    def _call(self, looks: Looks, name: str, step: int, args: Any, kwargs: Any) -> int | None:
        calls = looks.calls[step]
        value = None
        if not (looks.differs or len(calls) >= MOST_CALLS or any(word in name for word in RANDOM)):
            with suppress(Unknown):
                value = hash((name, *self._hashed(args), *self._hashed(tuple(kwargs.items()))))
        if value is None:
            looks.differs = True
            return None
        calls.append(value)
        looks.works |= name not in COPIES and any(
            isinstance(one, self._torch.Tensor) for one in (*args, *kwargs.values())
        )
        return value

    def _hashed(self, given: Any) -> Iterator[Any]:
        if len(given) > MOST_OPERANDS:
            raise Unknown
        for one in given:
            if isinstance(one, self._torch.Tensor):
                if one.requires_grad:
                    raise Unknown
                yield self._value(one)
            elif isinstance(one, (tuple, list)):
                yield hash(tuple(self._hashed(one)))
            elif isinstance(one, slice):
                yield hash(tuple(self._hashed((one.start, one.stop, one.step))))
            elif one is None or one is ... or isinstance(one, (int, float, complex, str)):
                yield hash((type(one).__name__, one))
            elif type(one).__module__ == "torch":  # a type, a device, a layout
                yield hash(repr(one))
            else:
                raise Unknown

    def seen(self, looks: Looks, steps: int) -> dict[str, Any]:
        """What is told of a line, once so many steps were seen; {} where there is nothing."""
        if not self.on:
            return {}
        each = range(steps)
        told: dict[str, Any] = {"zeros": None, "unfused": looks.unfused, "rows": None}
        # The largest operand that is the same in all steps, of two at least.
        for known in sorted(looks.operands.values(), key=lambda operand: -operand.size):
            tensor: Any = known.tensor()
            lasts = tensor is not None and tensor._version == known.version
            if lasts and steps > 1 and known.steps >= set(each):
                part = tensor.detach()[:: max(1, tensor.numel() // MOST_ELEMENTS)]
                zeros = 1 - int(self._torch.count_nonzero(part)) / part.numel()
                told["zeros"] = {"share": zeros, "shape": list(tensor.shape)}
                break
        rows = [rows for rows in looks.rows.values() if rows.weight not in self._multiplied]
        if rows:
            widest = max(rows, key=lambda rows: rows.of)
            used = int(self._torch.unique(self._torch.cat(widest.used)).numel())
            sizes = {"of": widest.of, "width": widest.width, "sparse": widest.sparse}
            told["rows"] = {"used": used, **sizes}
        first = looks.calls[0] if looks.works and not looks.differs else []
        if first and steps > 1 and all(looks.calls[step] == first for step in each):
            told["same"] = True
        return {name: value for name, value in told.items() if value}

    def _value(self, tensor: Any) -> int:
        """The value of a tensor: equal numbers hold the same. Raises `Unknown`.

        One that is still there and was not written into holds what it held; one that a known
        function made of the same holds the same, whether or not it is another object.
        """
        sample = ""
        if tensor.device.type == "cpu":
            # A few elements: an array of NumPy's may share its memory, and be written into.
            if not tensor.is_contiguous() and tensor.numel() > LARGE:
                raise Unknown
            flat = tensor.detach().reshape(-1)
            sample = repr(flat[:: max(1, flat.numel() // SAMPLED)][: 2 * SAMPLED].tolist())
        reference, version, value = self._known.get(id(tensor), (lambda: None, 0, 0))
        before: Any = reference()
        if before is not tensor or version != tensor._version:
            self._new += 1
            value = self._new
            self._put(tensor, value)
        return hash((value, sample))

    def _put(self, tensor: Any, value: int) -> None:
        if not tensor.is_inference():
            self._known[id(tensor)] = weakref.ref(tensor), tensor._version, value


def _changed(given: dict[str, Any], names: list[str]) -> dict[str, Any]:
    for name in names:
        given = given | CHANGES[name](given)
    return given


def _tensors(given: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    return {name: change(given[name]) for name in TAKEN_BY_PLACE[:3]}


CHANGES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "width": lambda given: {"value": given["key"]},
    "dimensions": lambda given: _tensors(given, lambda t: t if t.dim() > 3 else t.unsqueeze(0)),
    "memory": lambda given: _tensors(given, lambda t: t if t.stride(-1) == 1 else t.contiguous()),
    "mask": lambda given: {"attn_mask": None},
    "mask gradient": lambda given: (
        {} if given.get("attn_mask") is None else {"attn_mask": given["attn_mask"].detach()}
    ),
    "dropout": lambda given: {"dropout_p": 0.0},
}
"""What may keep attention from a fused kernel, and its arguments without: what changes them most
comes first, to be found needless."""

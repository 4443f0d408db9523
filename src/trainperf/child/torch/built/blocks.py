"""Lists of modules of one class in a model: what is compiled for one of them serves for all."""

from __future__ import annotations

import sys
from typing import Any

FEWEST = 4
"""Modules of one class from which compiling one, and not all, is worth a try."""


def of_model(model: Any) -> list[dict[str, Any]]:
    """The fields of a `Blocks` for each list that stands in no other, the longest first.

    Modules whose `forward` is PyTorch's own are none: `Module.compile` passes over them.
    """
    torch: Any = sys.modules["torch"]
    lists = (torch.nn.ModuleList, torch.nn.Sequential)
    found, inside = list[dict[str, Any]](), list[str]()
    for name, module in model.named_modules():
        if not isinstance(module, lists) or name.startswith(tuple(inside)):
            continue
        members = list(module.children())
        kinds = {type(one) for one in members}
        path = _source(name)
        if len(members) < FEWEST or len(kinds) != 1 or path is None:
            continue
        (cls,) = kinds
        if not (getattr(cls.forward, "__module__", None) or "").startswith("torch."):
            found.append({"path": path, "cls": cls.__name__, "count": len(members)})
            inside.append(f"{name}." if name else "")
    return sorted(found, key=lambda one: -int(one["count"]))


def _source(name: str) -> str | None:
    """The path of a submodule as it follows the model's name in source; None if it is no such."""
    parts = name.split(".") if name else []
    if not all(one.isidentifier() or one.isdecimal() for one in parts):
        return None
    return "".join(f"[{one}]" if one.isdecimal() else f".{one}" for one in parts)

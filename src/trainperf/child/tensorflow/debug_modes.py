"""Debug modes of TensorFlow: which of them the user's program turned on, and where."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..process import frames
from ..process.patching import after

SWITCHES = {
    "numerics": ("debugging", "enable_check_numerics", "disable_check_numerics"),
    "dump": (
        "debugging.experimental",
        "enable_dump_debug_info",
        "disable_dump_debug_info",
    ),
    "eager_input": ("data.experimental", "enable_debug_mode", None),
    "deterministic": ("config.experimental", "enable_op_determinism", None),
}
"""For each mode: the module of TensorFlow's API, and its functions that turn it on and off."""


def watch(loops: Any, module: Any) -> None:
    """Note where debug modes are turned on; `module` is `tensorflow`, fully imported."""
    for mode, (path, on, off) in SWITCHES.items():
        owner = module
        try:
            for part in path.split("."):
                owner = getattr(owner, part)
            what = f"where the debug mode {mode} is set"
            after(loops.process, owner, on, what, partial(_turned_on, loops, mode))
            if off is not None:
                after(loops.process, owner, off, what, partial(_turned_off, loops, mode))
        except AttributeError:  # this version does not have it
            continue


def _turned_on(loops: Any, mode: str, *args: Any, **kwargs: Any) -> None:
    loops.debug_modes[mode] = frames.here()


def _turned_off(loops: Any, mode: str, *args: Any, **kwargs: Any) -> None:
    loops.debug_modes.pop(mode, None)


def modes(loops: Any) -> dict[str, Any]:
    """The modes that are on, each with the call that turned it on, None if it is not known."""
    return {mode: loops.debug_modes[mode] for mode in SWITCHES if mode in loops.debug_modes}

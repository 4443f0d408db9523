"""Debug modes of TensorFlow: which of them the user's program turned on, and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..process import frames
from ..process.patching import replace

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
            replace(owner, on, _noting(loops, mode, True))
            if off is not None:
                replace(owner, off, _noting(loops, mode, False))
        except AttributeError:  # this version does not have it
            continue


def _noting(loops: Any, mode: str, on: bool) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def noted(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            try:
                if loops.process.off:
                    pass
                elif on:
                    loops.debug_modes[mode] = frames.here()
                else:
                    loops.debug_modes.pop(mode, None)
            except Exception as error:
                loops.process.failed(f"where the debug mode {mode} is set", error)
            return result

        return noted

    return make


def modes(loops: Any) -> dict[str, Any]:
    """The modes that are on, each with the call that turned it on, None if it is not known."""
    return {mode: loops.debug_modes[mode] for mode in SWITCHES if mode in loops.debug_modes}

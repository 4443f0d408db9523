"""How a file of the user's reaches Keras."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainperf.rewrite import Script


def keras_name(script: Script, file: str, module: str) -> str:
    """Return how `file` reaches Keras, by a name it has already where there is one."""
    if module == "keras":
        for known, rest in (("tensorflow", ".keras"), ("tensorflow.keras", "")):
            trying = script.copy()
            name = trying.module_name(file, known)
            if trying.sources() == script.sources():  # no import had to be added
                return name + rest
    return script.module_name(file, module)

"""The arguments that a fix changes, as the run saw them: kept in a finding for its edit."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainperf.model import Evidence


def seen_in_call(evidence: Evidence, **arguments: object) -> dict[str, Any]:
    """Return what a finding's data must hold for an argument to be set where it came from.

    `arguments` are those of the call as they took effect: what differs from them was not used.
    Options of the command are kept without their values; `reached` says that words at its end
    become arguments of the script.
    """
    return {
        "arguments": arguments,
        "given": options_given(evidence),
        "scripts": _scripts(evidence),
        "reached": bool(evidence.facts.get("command_reaches_script")),
    }


def options_given(evidence: Evidence) -> list[str]:
    """Return the options of the run's command, "@" for a file of further ones."""
    words = _words(evidence)
    given = {word.partition("=")[0] for word in words if word.startswith("-")}
    return sorted(given | {"@" for word in words if word.startswith("@")})


def _scripts(evidence: Evidence) -> list[str]:
    """Return the Python files that the run's commands name."""
    words = _words(evidence)
    modules = [after for before, after in itertools.pairwise(words) if before == "-m"]
    files = [word for word in words if word.endswith(".py")]
    return sorted({*files, *(f"{module.replace('.', '/')}.py" for module in modules)})


def _words(evidence: Evidence) -> list[str]:
    return [str(word) for word in evidence.facts.get("command_words") or ()]

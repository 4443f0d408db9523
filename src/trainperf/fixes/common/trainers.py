"""Settings of Transformers, Lightning and accelerate that govern what fixes change elsewhere.

Where the loop is a library's, a fix is made by the library's own setting: in the call of the
user's that makes its `TrainingArguments`, `Trainer` or `Accelerator`, where that call has the
value from, or, where options of the command are turned into them, by an option of the command.
"""

from __future__ import annotations

import ast
import itertools
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.model import Equivalence, Evidence, Finding, Site, Trainer
from trainperf.rewrite import Script
from trainperf.rewrite.arguments import Wanted, set_argument
from trainperf.rewrite.configuration import line_of
from trainperf.source.origins import Elsewhere, RecordedCall
from trainperf.trainer_settings import GOVERNS, Setting

Rewrite = Callable[["Script", Finding], None]

KEY = "trainer"
"""Key of a finding's data: the setting that makes its repair, and what is known of it."""


def setting_of(id_: str, data: Mapping[str, Any], evidence: Evidence) -> Setting | None:
    """Return the setting of the library whose loop this is that makes the repair of a fix."""
    trainer = None if evidence.torch_ is None else evidence.torch_.trainer
    if trainer is None:
        return None
    rows = GOVERNS.get(trainer.library, {}).get(id_, ())
    return next((setting for setting in rows if setting.suits(trainer, data)), None)


def governed(finding: Finding, evidence: Evidence) -> Finding:
    """Return a finding as it is repaired where a library's loop makes the steps."""
    trainer = None if evidence.torch_ is None else evidence.torch_.trainer
    if trainer is None:
        return finding
    setting = setting_of(finding.id, finding.data, evidence)
    # made elsewhere, the loop itself can be repaired
    if setting is None or (trainer.made == "elsewhere" and finding.rewritable):
        return finding
    own = [asdict(site) for site in finding.where] if finding.rewritable else []
    held = {
        "name": setting.name,
        "value": setting.template(trainer),
        "position": setting.position,
        "cls": trainer.cls,
        "made": trainer.made,
        "source": trainer.source,
        "defaults": trainer.defaults,
        "own": own,
        **seen_in_call(evidence, **trainer.settings),
    }
    several = "{" in setting.value  # which of several values is the best, a trial says
    advice = _advice(trainer, setting.name, "" if several else held["value"])
    if finding.equivalence is Equivalence.SEMANTICS:
        advice = f"{finding.advice} {advice}"
    return replace(
        finding,
        where=(trainer.where,) if trainer.where is not None else finding.where,
        advice=advice,
        snippet=_snippet(trainer, setting.name, held["value"].format_map(finding.data)),
        rewritable=True,
        data={**finding.data, KEY: held},
        variants=finding.variants if several else (),
    )


def _advice(trainer: Trainer, name: str, text: str) -> str:
    """Say what to do; `text` is the value, "" where it is not said."""
    if trainer.made == "command":
        words = f"{trainer.source}{name}" + (f" {_word(text)}" if text else "")
        return f"Run with `{words}`: the command sets the `{trainer.cls}` of this training."
    if trainer.made == "file":
        line = line_of(trainer.source, name, ast.literal_eval(text)) if text else name
        file = os.path.basename(trainer.source)
        return f"Set `{line}` in {file}, which the `{trainer.cls}` is read from."
    setting = f"{name}={text}" if text else name
    return f"Set `{setting}` in the `{trainer.cls}` of this training."


def _snippet(trainer: Trainer, name: str, text: str) -> str:
    """Return the call with the setting; the command, or a line of a file, is no source."""
    return f"{trainer.cls}(..., {name}={text})" if trainer.made in ("call", "elsewhere") else ""


def _word(text: str) -> str:
    return str(ast.literal_eval(text))


def write(script: Script, finding: Finding, rewrite: Rewrite) -> None:
    """Make the repair of a finding: by a library's setting where one governs it, else `rewrite`.

    What cannot be set there is rewritten where the fix would have, if it could. Raises
    `CannotRewrite` where neither is possible, or the command chooses and ends elsewhere.
    """
    held = finding.data.get(KEY)
    if held is None:
        rewrite(script, finding)
        return
    try:
        _set(script, finding, held)
    except Elsewhere:
        raise
    except CannotRewrite:
        if not held["own"]:
            raise
        own = tuple(Site(**place) for place in held["own"])
        rewrite(script, replace(finding, where=own))


def _set(script: Script, finding: Finding, held: Mapping[str, Any]) -> None:
    name, text = held["name"], held["value"].format_map(finding.data)
    if held["made"] == "command":
        _append(script, held, f"{held['source']}{name}", text)
        return
    if held["made"] == "file":
        _set_in_file(script, held["source"], name, ast.literal_eval(text))
        return
    site = finding.where[0] if finding.where else None
    if held["made"] != "call" or site is None or not site.exact:
        raise CannotRewrite(f"no call in your files makes the {held['cls']}: set {name}={text}")
    seen = RecordedCall.of(held, name, held["defaults"])
    set_argument(script, site, Wanted(name, text, held["position"]), seen)


def _set_in_file(script: Script, file: str, name: str, value: object) -> None:
    """Change the file; raises `Elsewhere`, with the line, where that cannot be done."""
    try:
        script.set_in_configuration(file, name, value)
    except CannotRewrite as refused:
        line = line_of(file, name, value)
        raise Elsewhere(f"{name} comes from {file}: set {line} there ({refused.reason})") from None


def _append(script: Script, held: Mapping[str, Any], option: str, text: str) -> None:
    """Give the script an option more; raises `Elsewhere` where the command cannot."""
    if not held["reached"]:
        raise Elsewhere(
            f"{option} sets {held['name']}, and what follows the command does not reach the "
            f"script: give it {option} {_word(text)} where it is started"
        )
    try:
        script.append_to_command(option, _word(text))
    except CannotRewrite as taken:
        raise Elsewhere(taken.reason) from taken


def seen_in_call(evidence: Evidence, **arguments: object) -> dict[str, Any]:
    """Return what a finding's data must hold for an argument to be set where it came from.

    `arguments` are those of the call as they took effect: what differs from them was not used.
    Options of the command are kept without their values; `reached` says that words at its end
    become arguments of the script.
    """
    words = [str(word) for word in evidence.facts.get("command_words") or ()]
    given = {word.partition("=")[0] for word in words if word.startswith("-")}
    modules = [after for before, after in itertools.pairwise(words) if before == "-m"]
    files = [word for word in words if word.endswith(".py")]
    return {
        "arguments": arguments,
        # "@" for a file of further options
        "given": sorted(given | {"@" for word in words if word.startswith("@")}),
        # the Python files that the command names
        "scripts": sorted({*files, *(f"{module.replace('.', '/')}.py" for module in modules)}),
        "reached": bool(evidence.facts.get("command_reaches_script")),
    }

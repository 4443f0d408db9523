"""Settings of Transformers, Lightning and accelerate that govern what fixes change elsewhere.

Where the loop is a library's, a fix is made by the library's own setting: in the call of the
user's that makes its `TrainingArguments`, `Trainer` or `Accelerator`, where that call has the
value from, or, where options of the command are turned into them, by an option of the command.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite
from trainperf.fixes.common.seen import seen_in_call
from trainperf.model import Evidence, Finding, Site, Trainer
from trainperf.rewrite.arguments import Seen, Wanted, set_argument
from trainperf.rewrite.configuration import line_of
from trainperf.source.origins.calls import Elsewhere

if TYPE_CHECKING:
    from trainperf.rewrite import Script

Rewrite = Callable[["Script", Finding], None]

KEY = "trainer"
"""Key of a finding's data: the setting that makes its repair, and what is known of it."""


@dataclass(frozen=True)
class Setting:
    """An argument, and the source text of its value, in which `{name}` is of the finding's data.

    Where `times` is given, the value is so many times what it was. It is for findings whose data
    holds what `of` says, and where the argument was one of `now` (empty: whatever it was).
    `position` is its place among the positional ones. `same` names what of the data it must have
    been, for what the library makes of it not to be anything else.
    """

    name: str
    value: str
    of: Mapping[str, object] = field(default_factory=dict)
    now: tuple[object, ...] = ()
    position: int | None = None
    times: int = 0
    same: str = ""

    def suits(self, trainer: Trainer, data: Mapping[str, Any]) -> bool:
        """Whether the installed version has it, and it is not what it should be already."""
        if self.name not in trainer.settings or any(data.get(k) != v for k, v in self.of.items()):
            return False
        now = trainer.settings[self.name]
        if (self.now and now not in self.now) or (self.same and now != data.get(self.same)):
            return False
        if self.times:
            return type(now) is int and now > 0
        wanted = ast.literal_eval(_filled(self.value, data))
        return (type(now), now) != (type(wanted), wanted)

    @property
    def said(self) -> str:
        """The setting as a page names it."""
        value = re.sub(r"\{\w+\}", "N", self.value)
        return f"{self.name} × {self.times}" if self.times else f"{self.name}={value}"

    def template(self, trainer: Trainer) -> str:
        """The source text of its value, for what it was."""
        return str(self.times * trainer.settings[self.name]) if self.times else self.value


BFLOAT16, FLOAT16 = {"dtype": "bfloat16"}, {"dtype": "float16"}
SELDOM = 5
"""Evaluations come so many times more seldom."""

OFTEN = tuple(range(1, 10))
"""Steps between two that are logged, from which on it is seldom."""

NUM_WORKERS = (Setting("dataloader_num_workers", "{workers}"),)

GOVERNS: dict[str, dict[str, tuple[Setting, ...]]] = {
    "transformers": {
        "torch_autocast": (
            Setting("bf16", "True", of=BFLOAT16),
            Setting("fp16", "True", of=FLOAT16),
        ),
        "torch_workers": NUM_WORKERS,
        "torch_too_many_workers": NUM_WORKERS,
        "torch_pin_memory": (Setting("dataloader_pin_memory", "True"),),
        "torch_persistent_workers": (Setting("dataloader_persistent_workers", "True"),),
        "torch_prefetch_factor": (Setting("dataloader_prefetch_factor", "{prefetch_factor}"),),
        "torch_compile": (Setting("torch_compile", "True"),),
        "torch_fused_optimizer": (
            Setting("optim", '"adamw_torch_fused"', now=("adamw_torch", "adamw_hf")),
        ),
        "torch_length_batches": (
            Setting("train_sampling_strategy", '"group_by_length"', now=("random",)),
            Setting("group_by_length", "True"),
        ),
        "batch_size": (Setting("per_device_train_batch_size", "{batch}", same="batch_size"),),
        "torch_checkpointing": (Setting("gradient_checkpointing", "False", now=(True,)),),
        "torch_ddp_unused_parameters": (
            Setting("ddp_find_unused_parameters", "False", now=(None, True)),
        ),
        "evaluation_between": (Setting("eval_steps", "", times=SELDOM),),
        "torch_step_logging": (Setting("logging_steps", "50", now=OFTEN),),
        "torch_ddp_static_graph": (Setting("ddp_static_graph", "True"),),
        "torch_ddp_bucket_size": (Setting("ddp_bucket_cap_mb", "{bucket_cap_mb}"),),
    },
    "lightning": {
        "torch_autocast": (
            Setting("precision", '"bf16-mixed"', of=BFLOAT16),
            Setting("precision", '"16-mixed"', of=FLOAT16),
        ),
        "torch_cudnn_benchmark": (Setting("benchmark", "True"),),
        "evaluation_between": (Setting("check_val_every_n_epoch", "", times=SELDOM),),
        "torch_step_logging": (
            Setting("log_every_n_steps", "50", now=OFTEN),
            Setting("enable_progress_bar", "False", now=(None, True)),
        ),
    },
    "accelerate": {
        "torch_autocast": (
            Setting("mixed_precision", '"bf16"', of=BFLOAT16, position=2),
            Setting("mixed_precision", '"fp16"', of=FLOAT16, position=2),
        ),
        "torch_compile": (Setting("dynamo_backend", '"inductor"', now=(None, "no", "NO")),),
    },
}
"""By library, and id of a fix: the settings that make its repair, the first that suits. Names
are those of transformers 4.40 to 5.23, lightning 2.6 and accelerate 1.15; of those the installed
version lacks, none suits."""


def names() -> dict[str, list[str]]:
    """Return the settings of the table, by library: what a run is to note of them."""
    return {
        library: sorted({one.name for each in fixes.values() for one in each})
        for library, fixes in GOVERNS.items()
    }


def setting_of(id_: str, data: Mapping[str, Any], evidence: Evidence) -> Setting | None:
    """Return the setting of the library whose loop this is that makes the repair of a fix."""
    trainer = None if evidence.torch_ is None else evidence.torch_.trainer
    if trainer is None:
        return None
    rows = GOVERNS.get(trainer.library, {}).get(id_, ())
    return next((one for one in rows if one.suits(trainer, data)), None)


def governed(finding: Finding, evidence: Evidence) -> Finding:
    """Return a finding as it is repaired where a library's loop makes the steps."""
    setting = setting_of(finding.id, finding.data, evidence)
    trainer = evidence.torch.trainer if setting is not None else None
    if setting is None or trainer is None:
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
    text = _filled(held["value"], finding.data)
    return replace(
        finding,
        where=(trainer.where,) if trainer.where is not None else finding.where,
        advice=_advice(trainer, setting.name, text),
        snippet=_snippet(trainer, setting.name, text),
        rewritable=True,
        data={**finding.data, KEY: held},
    )


def _filled(value: str, data: Mapping[str, Any]) -> str:
    """Return the value for a finding with such data; of several ways to make it, the first."""
    first = next(iter(data.get("variants") or ()), {})
    return value.format_map({**first, **data})


def _advice(trainer: Trainer, name: str, text: str) -> str:
    if trainer.made == "command":
        words = f"{trainer.source}{name} {_word(text)}"
        return f"Run with `{words}`: the command sets the `{trainer.cls}` of this training."
    if trainer.made == "file":
        line = line_of(trainer.source, name, ast.literal_eval(text))
        return f"Set `{line}` in {trainer.source}, which the `{trainer.cls}` is read from."
    return f"Set `{name}={text}` in the `{trainer.cls}` of this training."


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
        own = tuple(Site(**each) for each in held["own"])
        rewrite(script, replace(finding, where=own))


def _set(script: Script, finding: Finding, held: Mapping[str, Any]) -> None:
    name, text = held["name"], _filled(held["value"], finding.data)
    if held["made"] == "command":
        _append(script, held, f"{held['source']}{name}", text)
        return
    if held["made"] == "file":
        _set_in_file(script, held["source"], name, ast.literal_eval(text))
        return
    site = finding.where[0] if finding.where else None
    if held["made"] != "call" or site is None or not site.exact:
        raise CannotRewrite(f"no call in your files makes the {held['cls']}: set {name}={text}")
    seen = Seen.of(held, name, held["defaults"])
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

"""Settings of Transformers, Lightning and accelerate, by the fixes whose repair they make."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainperf.model import Trainer


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
        meant = all(data.get(key) == value for key, value in self.of.items())
        if self.name not in trainer.settings or not meant:
            return False
        now = trainer.settings[self.name]
        if (self.now and now not in self.now) or (self.same and now != data.get(self.same)):
            return False
        if self.times:
            return type(now) is int and now > 0
        wanted = ast.literal_eval(self.value.format_map(data))
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
        "torch_matmul_precision": (Setting("tf32", "True", now=(None, False)),),
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
    },
    "lightning": {
        "torch_autocast": (
            Setting("precision", '"bf16-mixed"', of=BFLOAT16),
            Setting("precision", '"16-mixed"', of=FLOAT16),
        ),
        "torch_cudnn_benchmark": (Setting("benchmark", "True"),),
        "evaluation_between": (Setting("check_val_every_n_epoch", "", times=SELDOM),),
        "torch_step_logging": (Setting("log_every_n_steps", "50", now=OFTEN),),
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
are those of the versions in `TRIED`; of those the installed one lacks, none suits."""

TRIED = {
    "transformers": ("4.40.2", "5.24.0"),
    "lightning": ("2.2.5", "2.6.6"),
    "accelerate": ("0.30.1", "1.15.0"),
    "datasets": ("2.19.2", "5.2.0"),
}
"""The oldest version that scripts were diagnosed with, and the newest (PyTorch 2.13): older ones
are not promised to work."""


def names() -> dict[str, list[str]]:
    """Return the settings of the table, by library: what a run is to note of them."""
    return {
        library: sorted({one.name for each in fixes.values() for one in each})
        for library, fixes in GOVERNS.items()
    }

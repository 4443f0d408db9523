"""The cases of `torch_checkpointing`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import GPU
from fixes.cases.common.torch_cases import MODEL, split, torch_evidence
from rewriting import Example, unmarked
from trainperf.fixes.common.words import GIB
from trainperf.model import Missing, Site

CHECKPOINTED = replace(MODEL, checkpointing=True)

CALL = Site("model.py", 30, "forward", col=16, end_line=30, end_col=60)

LIBRARY = """\
model = AutoModel.from_config(config)
{}for batch in loader:
    loss = ▸model(**batch)◂.loss
    loss.backward()
"""


def _of(before: str, after: str) -> Example:
    plain = unmarked(LIBRARY)
    return Example(LIBRARY.format(before), plain.format(after))


EXAMPLES = [
    Example(
        before="for block in self.blocks:\n"
        "    x = ▸checkpoint(block, x, mask, use_reentrant=False)◂\n",
        after="for block in self.blocks:\n    x = block(x, mask)\n",
    ),
    Example(
        before="x = ▸torch.utils.checkpoint.checkpoint(lambda x: f(x) + 1, x, debug=True, k=2)◂\n",
        after="x = (lambda x: f(x) + 1)(x, k=2)\n",
    ),
    _of("model.gradient_checkpointing_enable()\n", ""),
    _of(
        "args = TrainingArguments(out, gradient_checkpointing=True)\n",
        "args = TrainingArguments(out, gradient_checkpointing=False)\n",
    ),
    # from a configuration; what is called is hidden
    _of(
        "args = TrainingArguments(out, gradient_checkpointing=on)\n",
        "args = TrainingArguments(out, gradient_checkpointing=on)\n",
    ),
    Example.untouched("x = ▸checkpoint(*parts)◂\n"),
    Example.untouched("x = ▸checkpoint_sequential(blocks, 4, x)◂\n"),
]


def _memory(peak: float) -> dict[str, Any]:
    return {"memory": {"allocated_peak": int(peak * 24 * GIB), "total": 24 * GIB}}


examples = EXAMPLES

silent = [
    torch_evidence(device=GPU, torch=_memory(0.3)),
    # the memory is needed
    torch_evidence(device=GPU, model=CHECKPOINTED, torch=_memory(0.7)),
    # how much is free is not known
    torch_evidence(device=GPU, model=CHECKPOINTED),
    torch_evidence(model=CHECKPOINTED, torch=_memory(0.3)),
    # the forward is a small part
    torch_evidence(
        device=GPU,
        model=CHECKPOINTED,
        torch=_memory(0.3),
        split=split(forward=0.002, backward=0.09),
    ),
    torch_evidence(device=GPU, model=CHECKPOINTED, torch=_memory(0.3), split=Missing("not timed")),
    # input-bound
    torch_evidence(device=GPU, model=CHECKPOINTED, torch=_memory(0.3), resident=0.01, input=0.099),
]

fires = [
    torch_evidence(device=GPU, model=CHECKPOINTED, torch=_memory(0.3)),
    torch_evidence(device=GPU, model=replace(CHECKPOINTED, where=None), torch=_memory(0.1)),
    torch_evidence(
        device=GPU, model=replace(CHECKPOINTED, checkpoints=(CALL,)), torch=_memory(0.1)
    ),
]

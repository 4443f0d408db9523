"""The cases of `ranks_writing`."""

from __future__ import annotations

from typing import Any

from fixes.cases.ranks._parallel_cases import exchange as an_exchange
from fixes.cases.ranks._parallel_cases import parallel_evidence, ranks
from rewriting import Example, unmarked
from trainperf.model import Evidence

LOOP = """\
import torch
import torch.distributed as dist


def train(model, loader, rank, path, best):
    for epoch in range(9):
        for x in loader:
            step(model, x)
        {save}
"""


def _saved(before: str, after: str | None = None) -> Example:
    """A loop that saves, before and after; None: it is left alone."""
    plain = unmarked(before)
    return Example(LOOP.replace("{save}", before), LOOP.replace("{save}", after or plain))


EXAMPLES = [
    _saved(
        "▸torch.save(model.module.state_dict(), path)◂",
        "if not dist.is_initialized() or dist.get_rank() == 0:\n"
        "            torch.save(model.module.state_dict(), path)",
    ),
    _saved(  # a dictionary over lines
        '▸torch.save(\n            {"model": model.state_dict(), "epoch": epoch}, f"{epoch}.pt"\n'
        "        )◂",
        "if not dist.is_initialized() or dist.get_rank() == 0:\n"
        '            torch.save(\n                {"model": model.state_dict(), "epoch": epoch}, '
        'f"{epoch}.pt"\n            )',
    ),
    _saved('▸torch.save(model.state_dict(), f"weights-{rank}.pt")◂'),  # a file each
    _saved("▸torch.save(gathered(model), path)◂"),  # all ranks may take part
    _saved("▸torch.save(model.state_dict(), path)◂\n        shutil.copy(path, best)"),
    _saved(
        "▸torch.save(model.state_dict(), path)◂\n        model.load_state_dict(torch.load(path))"
    ),
]

FOUR = {"processes": ranks(4), "replicas": 4}


def _writing(count: Any, parallel: dict[str, Any] | None = None, **facts: Any) -> Evidence:
    return parallel_evidence(
        parallel=FOUR | (parallel or {}), facts={"ranks_writing": count, **facts}
    )


silent = [
    parallel_evidence(),
    parallel_evidence(parallel_=None, facts={"ranks_writing": 2}),
    _writing(0),
    _writing(1),
    # each writes its own part
    _writing(4, {"exchange": an_exchange(method="FullyShardedDataParallel")}),
    _writing(4, {"exchange": an_exchange(method="fully_shard")}),
    # not known
    _writing(None),
]

fires = [
    _writing(4),
    _writing(2, checkpoint_writes=3),
    _writing(4, checkpoint_where={"file": "train.py", "line": 40, "function": "save"}),
    _writing(4, checkpoint_where={"file": "train.py", "line": 40, "end_line": 40, "end_col": 60}),
    _writing(3, {"exchange": None}),
]

examples = EXAMPLES

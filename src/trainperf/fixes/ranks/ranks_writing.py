"""Checkpoints that every rank writes, though all have the same weights."""

from __future__ import annotations

import ast
import re
from typing import Any

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.words import at
from trainperf.fixes.ranks._exchange import exchange
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.statements import Function, called

SNIPPET = """\
from torch import distributed

if distributed.get_rank() == 0:
    torch.save(model.module.state_dict(), path)
distributed.barrier()  # only where others read the file right away"""

SHARDED = ("FullyShardedDataParallel", "fully_shard")

HARMLESS = {"state_dict", "dict", "float", "int", "str", "item", "vars", "cpu", "copy", "deepcopy"}
"""Calls within what is written that need no other rank."""


class RanksWriting(Fix):
    """Write checkpoints in rank 0 only.

    ## Why it is slow
    After each update all ranks have the same weights. Where each writes them, the disk
    takes as many copies as there are ranks, and the next exchange waits for the last of
    them. With one path for all, ranks also write into each other's file.

    ## What changes
    One rank writes; the others go on. The weights on disk are the same. No edit is written
    where what is saved may need other ranks, or the file is read or copied afterwards.

    ## When not to
    - Where each rank writes its own part (FSDP, sharded optimizers, its own random state).
    - Where each host needs a copy on its own disk: then one rank of each host writes.
    """

    category = "host"
    equivalence = Equivalence.EXACT
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a job of which several ranks wrote files with `torch.save` while observed."""
        job, count = evidence.parallel, evidence.fact("ranks_writing")
        if not isinstance(count, int) or count < 2 or _sharded(evidence):
            return None
        where = _site(evidence.facts.get("checkpoint_where"))
        writes = evidence.facts.get("checkpoint_writes")
        often = ""
        if isinstance(writes, int) and writes > 0:
            often = (
                f" One of them did so {'once' if writes == 1 else f'{writes:,} times'} meanwhile."
            )
        same = ", and all have the same weights" if job.exchange is not None else ""
        place = f" in {at(where)}" if where else ""
        return self.finding(
            title=f"{count} ranks write checkpoints",
            text=f"{count} of {job.expected} ranks wrote files with `torch.save`{place} while the "
            f"training was observed{same}.{often}",
            bound=None,
            bound_basis="not measured: no step was timed without it",
            where=(where,) if where else (),
            advice="Write checkpoints in rank 0 only.",
            snippet=SNIPPET,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put the statement that writes under a condition that rank 0 meets."""
        for site in finding.where:
            _check_alone(script, site)
            script.wrap_statements(site, site, _guard(script, site))


def _guard(script: Script, site: Site) -> str:
    """The head of a block that rank 0 runs, and a process of its own as well."""
    distributed = script.module_name(site.file, "torch.distributed", site)
    return f"if not {distributed}.is_initialized() or {distributed}.get_rank() == 0:"


def _sharded(evidence: Evidence) -> bool:
    """Whether each rank has its own part of the weights."""
    try:
        method = exchange(evidence).method
    except NotMeasured:
        method = ""
    return method in SHARDED


def _site(place: Any) -> Site | None:
    """A place as a process records it; None if it recorded none."""
    if not isinstance(place, dict) or not place.get("file"):
        return None
    extent = [int(place.get(name) or 0) for name in ("col", "end_line", "end_col")]
    return Site(str(place["file"]), int(place["line"]), str(place.get("function") or ""), *extent)


def _check_alone(script: Script, site: Site) -> None:
    """Refuse where other ranks take part in writing, or need what is written."""
    statement = script.around(site)[-1]
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or len(call.args) < 2:
        raise CannotRewrite("the call that writes is no statement of its own")
    made = {called(each) for each in ast.walk(call.args[0]) if isinstance(each, ast.Call)}
    if made - HARMLESS:
        raise CannotRewrite(f"other ranks may take part in {', '.join(sorted(made - HARMLESS))}()")
    path = ast.unparse(call.args[1])
    if re.search("rank", path, re.IGNORECASE):
        raise CannotRewrite("each rank writes a file of its own")
    functions = [each for each in script.around(site) if isinstance(each, Function)]
    scope = functions[-1] if functions else script.module(site.file)
    for node in ast.walk(scope):
        later = getattr(node, "lineno", 0) > (statement.end_lineno or statement.lineno)
        if not later or not isinstance(node, ast.Call):
            continue
        if called(node) == "load" or path in (ast.unparse(each) for each in node.args):
            raise CannotRewrite(f"line {node.lineno} may need the file in other ranks")

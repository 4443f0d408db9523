"""What ranks do: wait for one of them, take each other's cores, go slow ways, write alike."""

from __future__ import annotations

import ast
import re
from collections import Counter

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.step import threads_variable
from trainperf.fixes.common.words import at, measured_or, ms, percent, recorded_site
from trainperf.fixes.ranks._exchange import (
    exchange,
    exchange_said,
    price_without,
    step_without_exchange,
)
from trainperf.fixes.rows import SetVariable
from trainperf.fixes.torch_step._source import function_around
from trainperf.model import (
    Equivalence,
    Evidence,
    Finding,
    Measure,
    Missing,
    Parallel,
    Rank,
    Site,
    is_taken,
)
from trainperf.model import Straggler as LateRank
from trainperf.rewrite import Script
from trainperf.source.statements import called

LOOK = """\
# on the host of rank {rank}, while it trains: who else runs there, on which cores
top -b -n 1 | head -30"""

CLOCKS = """
nvidia-smi --query-gpu=index,clocks.sm,clocks_throttle_reasons.active --format=csv -l 1"""

BALANCE = """\
# where samples differ in length: sort, and deal out in turn
order = sorted(range(len(dataset)), key=lambda index: length_of(dataset[index]))
own = order[: len(order) // world_size * world_size][rank::world_size]"""


class Straggler(Fix):
    """Give the slowest rank what it lacks: the others wait for it in each step.

    Why slow: Every exchange of gradients needs all ranks. One that reads larger files, has fewer
    cores, a GPU at a lower clock or a busy host sets the pace of the whole job.
    Changes: Its input, cores, clock or host are to be made like those of the others. Shards that
    are dealt out anew change the order of samples.
    When not: When which rank is late changes from step to step: then the samples differ in length,
    and batches of similar lengths help, not another host.
    """

    equivalence = Equivalence.NUMERICS
    without_edit = "what the slowest rank lacks is in its host, its share of the data or its device"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the rank that is furthest behind."""
        parallel, real = evidence.parallel, evidence.times.real
        if not parallel.stragglers:
            return None
        late = max(parallel.stragglers, key=lambda straggler: straggler.behind_s)
        by_input = late.phase == "input"
        host = next((rank.host for rank in parallel.processes if rank.rank == late.rank), "")
        on = f" on {host}" if host and parallel.hosts > 1 else ""
        waiting = parallel.exchange.waiting_ if parallel.exchange else 0.0
        waited = 0.0 if isinstance(waiting, Missing) else waiting
        ahead = _ahead(parallel, late, real)
        look = LOOK + (CLOCKS if evidence.device.kind == "GPU" else "")
        loaders = evidence.torch_.loaders if evidence.torch_ and by_input else ()
        samples = [loader.item or loader.where for loader in loaders if loader.role == "training"]
        return Cause(
            title=f"All ranks wait for rank {late.rank}",
            text=f"Rank {late.rank}{on} is {ms(late.behind_s)} behind the usual one in each step "
            f"of {ms(real)} ({percent(late.share)}), by its "
            f"{'input' if by_input else 'own step'}{f': {late.cause}' if late.cause else ''}."
            + (f" On average a rank waits {ms(waited)} in each." if waited > 0 else ""),
            saves=Saving("nobody waits for this rank", max(late.behind_s, waited))
            if ahead is None
            else Saving("the step of the slowest of the other ranks", ahead),
            where=tuple(place for place in samples if place is not None)[:1],
            advice=f"Compare the shard, the loader and the storage of rank {late.rank} with those "
            "of the others; deal samples out so that every rank has as much to do."
            if by_input
            else f"Compare clocks, cores and host of rank {late.rank} with those of the others, "
            "and what else runs there.",
            snippet=BALANCE if by_input else look.format(rank=late.rank),
        )


def _ahead(parallel: Parallel, late: LateRank, real: float) -> float | None:
    """Seconds by which it is behind the slowest rank that is no straggler; None if unknown.

    By the steps without exchange, in which no rank waits for another.
    """
    names = {straggler.rank for straggler in parallel.stragglers}
    timed = [(rank.rank, rank.local) for rank in parallel.processes]
    own = {number: local.seconds for number, local in timed if isinstance(local, Measure)}
    others = [seconds for number, seconds in own.items() if number not in names]
    if late.rank not in own or not others:
        return None
    slowest = max(own.values())
    fits = min(1.0, real / slowest)  # its work was timed over other samples than its step
    return (slowest - max(others)) * fits


# ------------------------------------------------------------------------------ threads


class RanksThreads(Fix):
    """Give each rank as many threads as it has cores to itself.

    Why slow: `torchrun` sets one thread per rank unless `OMP_NUM_THREADS` says otherwise, and
    cores stay idle; other launchers leave each rank as many threads as the machine has cores, and
    the ranks take them from each other.
    Changes: A variable of the environment: cores over ranks. Sums are added up in another order,
    so losses may differ by rounding.
    When not:
    - When worker processes of the loader need the cores.
    - A script that calls `torch.set_num_threads` itself must be changed there.
    """

    category = "environment"
    equivalence = Equivalence.ENVIRONMENT
    edit = SetVariable({"{variable}": "{threads}"})

    def look(self, evidence: Evidence) -> Cause | None:
        """Find ranks that compute on the CPU with other threads than their share of cores."""
        host, together, cores = _lead(evidence)
        threads = [rank.threads or 0 for rank in together]
        most, wanted = max(threads), max(1, cores // len(together))
        over = most * len(together) > cores and most > wanted
        if evidence.device.kind != "CPU" or len(together) < 2 or min(threads) < 1:
            return None
        if most == wanted or (most > wanted and not over):
            return None
        wasted = 1 - wanted / most if over else 1 - most / wanted
        variable = threads_variable(evidence)
        each = f"{'' if min(threads) == most else 'up to '}{most} thread{'s' * (most > 1)} each"
        overruled = " torch.set_num_threads in the script counts more: change it there."
        return Cause(
            title=f"{len(together)} ranks with {each} "
            f"{f'fight over {cores} cores' if over else 'leave cores idle'}",
            text=f"On {host} {len(together)} ranks compute with {each}; {cores} cores are there, "
            f"{wanted} for each.",
            saves=Saving(
                "no core's time lost to threads that wait for their turn"
                if over
                else f"operations spread over {wanted} threads without loss",
                lambda: wasted * _computing(evidence),
                most=(lambda: _computing(evidence)) if over else None,  # as in `host/cores.py`
            ),
            advice=f"Set {variable} to the cores of each rank."
            f"{overruled if evidence.framework.name == 'torch' else ''}",
            snippet=f"export {variable}={wanted}",
            data={"variable": variable, "threads": wanted},
        )


def _lead(evidence: Evidence) -> tuple[str, list[Rank], int]:
    """The host with most ranks, its ranks with known threads, and the cores they share.

    Raises `NotMeasured` where no rank's threads are known.
    """
    known = [rank for rank in evidence.parallel.processes if rank.threads is not None]
    if not known:
        raise NotMeasured("how many threads the ranks have is not known")
    host = Counter(rank.host for rank in known).most_common(1)[0][0]
    together = [rank for rank in known if rank.host == host]
    own = [set(rank.cores) for rank in together if rank.cores is not None]
    cores = len(set().union(*own)) if len(own) == len(together) else int(evidence.machine.cores)
    if host == evidence.parallel.processes[0].host:  # the machine is that of the first rank
        cores = min(cores, max(1, int(evidence.machine.cores)))
    return host or "the host", together, cores


def _computing(evidence: Evidence) -> float:
    """Seconds of a step in which a rank computes: neither input nor exchange."""
    alone = measured_or(evidence.times.real, lambda: step_without_exchange(evidence))
    if is_taken(evidence.times.resident_):
        alone = min(alone, evidence.times.resident)
    return min(alone, evidence.times.real)


# ------------------------------------------------------------------------------- NCCL

HELD_BACK = {
    "NCCL_P2P_DISABLE": ("1", "0", "GPUs of one host do not copy to each other directly"),
    "NCCL_SHM_DISABLE": ("1", "0", "ranks of one host do not exchange through shared memory"),
    "NCCL_DEBUG": ("TRACE", "WARN", "a line is written for every call"),
    "NCCL_IB_DISABLE": ("1", "0", "hosts do not use InfiniBand or RoCE"),
    "NCCL_NET": ("Socket", "", "hosts exchange through the kernel's sockets"),
    "FI_PROVIDER": ("tcp|sockets", "", "libfabric uses the kernel's sockets, not EFA"),
}
"""Variables: the values that hold NCCL back, what a trial sets, if anything, what they do."""

BETWEEN_HOSTS = {"NCCL_IB_DISABLE", "NCCL_NET", "FI_PROVIDER"}
"""Those that matter between hosts only."""


class NcclSettings(Fix):
    """Let NCCL use the quickest way between GPUs and hosts that it finds.

    Why slow: `NCCL_P2P_DISABLE`, `NCCL_SHM_DISABLE` and `NCCL_IB_DISABLE` take NVLink, PCIe,
    shared memory or InfiniBand away from NCCL; `NCCL_NET=Socket`, `FI_PROVIDER=tcp` and their like
    send gradients through the kernel's sockets. `NCCL_DEBUG=TRACE` writes lines for every call.
    They are often left over from looking for a fault.
    Changes: The switches are 0, and the log only warns; what names a slow way is for you to unset.
    The sums may be made in another order.
    When not:
    - Where an administrator sets them because the direct way hangs or gives wrong numbers.
    - Where the quick way is not installed (EFA needs the aws-ofi-nccl plugin).
    - A script that sets the variables itself must be changed there.
    """

    equivalence = Equivalence.ENVIRONMENT

    def look(self, evidence: Evidence) -> Cause | None:
        """Find variables that hold NCCL back where several GPUs, or hosts, exchange by it."""
        given = evidence.fact("nccl_environment")
        if "nccl" not in exchange(evidence).backend.lower() or not isinstance(given, dict):
            return None
        skipped = BETWEEN_HOSTS if evidence.parallel.hosts < 2 else set()
        found = {
            name: str(given[name])
            for name, (slow, _, _) in HELD_BACK.items()
            if name not in skipped
            and re.fullmatch(slow, str(given.get(name, "")).strip(), re.IGNORECASE)
        }
        if not found:
            return None
        names = " and ".join(found)
        effects = " ".join(
            f"{name}={set_to}: {HELD_BACK[name][2]}." for name, set_to in found.items()
        )
        setting = {name: HELD_BACK[name][1] for name in found if HELD_BACK[name][1]}
        return Cause(
            title=f"NCCL is held back by {names}",
            text=f"{effects} {exchange_said(evidence)}.",
            saves=price_without(evidence, "no time spent on the exchange of gradients"),
            advice=f"Unset {names}, unless this machine needs it.",
            snippet="\n".join(f"unset {name}" for name in found),
            rewritable=bool(setting),
            data={"variables": setting},
        )

    def environment(self, finding: Finding) -> dict[str, str]:
        """Switch the direct ways on again."""
        return {str(name): str(value) for name, value in finding.data["variables"].items()}


# ---------------------------------------------------------------------------- checkpoints

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

    Why slow: After each update all ranks have the same weights. Where each writes them, the disk
    takes as many copies as there are ranks, and the next exchange waits for the last of them. With
    one path for all, ranks also write into each other's file.
    Changes: One rank writes; the weights on disk are the same. No edit is written where what is
    saved may need other ranks, or the file is read or copied afterwards.
    When not:
    - Where each rank writes its own part (FSDP, sharded optimizers, its own random state).
    - Where each host needs a copy on its own disk: then one rank of each host writes.
    """

    category = "host"
    framework = "torch"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a job of which several ranks wrote files with `torch.save` while observed."""
        job, count = evidence.parallel, evidence.fact("ranks_writing")
        sharded = job.exchange is not None and job.exchange.method in SHARDED
        if not isinstance(count, int) or count < 2 or sharded:
            return None
        where = recorded_site(evidence.facts.get("checkpoint_where"))
        same = ", and all have the same weights" if job.exchange is not None else ""
        return Cause(
            title=f"{count} ranks write checkpoints",
            text=f"{count} of {job.expected} ranks wrote files with `torch.save`"
            f"{f' in {at(where)}' if where else ''} while the training was observed{same}.",
            saves=Unpriced("not measured: no step was timed without it"),
            where=(where,) if where else (),
            snippet=SNIPPET,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put the statement that writes under a condition that rank 0 meets."""
        for site in finding.where:
            _check_alone(script, site)
            distributed = script.module_name(site.file, "torch.distributed", site)
            only = f"if not {distributed}.is_initialized() or {distributed}.get_rank() == 0:"
            script.wrap_statements(site, site, only)


def _check_alone(script: Script, site: Site) -> None:
    """Refuse where other ranks take part in writing, or need what is written: no trial shows it."""
    statement = script.around(site)[-1]
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or len(call.args) < 2:
        raise CannotRewrite("the call that writes is no statement of its own")
    made = {called(node) for node in ast.walk(call.args[0]) if isinstance(node, ast.Call)}
    if made - HARMLESS:
        raise CannotRewrite(f"other ranks may take part in {', '.join(sorted(made - HARMLESS))}()")
    path = ast.unparse(call.args[1])
    if re.search("rank", path, re.IGNORECASE):
        raise CannotRewrite("each rank writes a file of its own")
    for node in ast.walk(function_around(script, site) or script.module(site.file)):
        later = getattr(node, "lineno", 0) > (statement.end_lineno or statement.lineno)
        if not later or not isinstance(node, ast.Call):
            continue
        if called(node) == "load" or path in (ast.unparse(given) for given in node.args):
            raise CannotRewrite(f"line {node.lineno} may need the file in other ranks")

"""Worker processes: none, too few, too many, and the threads of each."""

from __future__ import annotations

import ast
import math
from dataclasses import asdict, replace

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import cores, upper
from trainperf.fixes.common.words import if_measured, measured_or, ms, percent
from trainperf.fixes.dataloader._loader import (
    DATA_LOADER,
    PREFETCH,
    SAMPLER,
    cores_per_rank,
    costs_said,
    fits_shm,
    keeps_up,
    made_s,
    named,
    places,
    ranks,
    seen_in_run,
    stage_seconds,
)
from trainperf.fixes.rows import SetArgument
from trainperf.model import Equivalence, Evidence, Finding, Site, Variant
from trainperf.model.words import count
from trainperf.rewrite import Script

SWEEP = (1, 2, 4, 8)
"""Numbers of workers worth a trial everywhere; the cores and the need add theirs."""

MOST_VARIANTS = 4
"""Trials that the number of workers of one loader may take."""

WAITING = 0.5
"""Share of the cores below which those that make batches wait (for a disk, a network, a
lock) rather than compute: as many more may wait at the same time as fill it."""

MOST_WAITING = 32
"""Workers that wait, at most: each is a process, with memory of its own and a start."""

IDLE = 1.2 * WAITING
"""Share of the cores in use while the loader is drained, below which its workers wait rather
than fight for cores: then more of them than cores can be right. A little above what workers
that wait are offered to fill, so that this advice stands."""

FEWEST_SAMPLES = 3
"""Samples of the CPU use while the input was drained, below which it is not known."""

BUILTIN_SAMPLERS = (
    "", "SequentialSampler", "RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler",
    "BatchSampler", "DistributedSampler",
)  # fmt: skip
"""Samplers that draw all their random numbers where an epoch begins, so that fetching
ahead leaves the order alone."""


# ------------------------------------------------------------------ how many workers may pay


def cores_said(evidence: Evidence) -> str:
    """Say how many cores there are: "8 cores are there", for several ranks how many each."""
    several, have = ranks(evidence), cores(evidence)
    if not evidence.machine.cores:
        return "how many cores there are is not known"
    # Of a quota below one core, the part that there is.
    said = "1 core is" if have == 1 else f"{have or evidence.machine.cores:g} cores are"
    return f"{said} there for {several} training processes" if several > 1 else f"{said} there"


def step_beside_s(evidence: Evidence, workers: int) -> float:
    """Return the seconds of a step at best if `workers` processes make the batches.

    Making them overlaps with the step then; what the sampler takes stays in the
    training process, where it was timed. Raises `NotMeasured`.
    """
    own = evidence.times.resident + stage_seconds(evidence).get(SAMPLER, 0.0)
    return max(own, made_s(evidence) / max(1, workers), 1e-9)


def workers_needed(evidence: Evidence) -> int:
    """Return how many workers keep up with the step: what they make over what it takes."""
    return max(1, math.ceil(made_s(evidence) / max(evidence.times.resident, 1e-9)))


def maker_share(evidence: Evidence) -> float:
    """Return what share of a core each process that makes batches keeps busy; above 0.

    That is the CPU use while the loader is drained, over the workers (the training process, where
    there are none) of all ranks. Raises `NotMeasured`.
    """
    drained = evidence.phase("input")
    if drained.cpu_cores is None or drained.samples < FEWEST_SAMPLES:
        raise NotMeasured("the CPU use while the input was drained is not known")
    makers = max(1, evidence.torch.loader.workers) * ranks(evidence)
    return max(drained.cpu_cores / makers, 1e-3)


def most_workers(evidence: Evidence) -> int:
    """Return how many workers may pay: the cores of a rank, and more if workers wait.

    So many more that they keep `WAITING` of the cores busy together, at most
    `MOST_WAITING`, and no more than the step needs.
    """
    width = cores_per_rank(evidence)
    if not evidence.machine.cores:  # a trace does not say
        return max(SWEEP)
    try:
        room = WAITING * evidence.machine.cores / ranks(evidence) / maker_share(evidence)
        useful = min(int(room), MOST_WAITING, 2 * workers_needed(evidence))
    except NotMeasured:
        return width
    return max(width, useful)


def choices(evidence: Evidence, least: int, most: int) -> list[int]:
    """Return at most four numbers of workers from `least` to `most`, around the need.

    They are of 1, 2, 4, 8, the need itself (all cores, where it was not measured), all cores and
    all but the trainer's own, and above the cores (workers that wait) the need, 16 and the most;
    those whose batches in flight `/dev/shm` cannot hold are left out.
    """
    all_cores = cores_per_rank(evidence)
    need = measured_or(max(1, all_cores), lambda: workers_needed(evidence))
    offered = {*SWEEP, min(need, all_cores), all_cores - 1, all_cores}
    if most > all_cores:
        offered |= {need, 16, most}
    prefetch = evidence.torch.loader.prefetch_factor or PREFETCH
    suited = [n for n in offered if max(1, least) <= n <= most and fits_shm(evidence, n, prefetch)]
    return sorted(likeliest_first(need, suited)[:MOST_VARIANTS])


def likeliest_first(workers: int, offered: list[int]) -> list[int]:
    """Return numbers of workers as they are to be raced: `workers`, then those nearest to it."""
    return sorted(offered, key=lambda n: (abs(math.log2(n / workers)), n))


def _other_number(
    evidence: Evidence, offered: list[int], title: str, text: str, basis: str, sure: bool
) -> Cause:
    """A cause whose repair is another number of workers, one of those `offered`."""
    loader, workers = evidence.torch.loader, max(offered)
    # other workers leave every sample and its order exactly as they are
    same = not loader.iterable and loader.random is False and loader.sampler in BUILTIN_SAMPLERS
    try:  # the fewest that promise as much as the most do
        best = step_beside_s(evidence, max(offered))
        workers = min(n for n in offered if step_beside_s(evidence, n) <= 1.02 * best)
    except NotMeasured:
        pass
    return Cause(
        title=title,
        text=text,
        saves=Saving(
            upper(evidence, f"{count(max(offered), 'worker')} {basis}"),
            ratio=lambda: max(1.0, evidence.times.real / step_beside_s(evidence, max(offered))),
            of="input",
        ),
        where=places(loader),
        snippet=f"loader = DataLoader(dataset, ..., num_workers={workers})",
        sure=sure,
        data={"workers": workers, **seen_in_run(evidence)},
        variants=tuple(Variant({"workers": n}) for n in likeliest_first(workers, offered)),
        equivalence=Equivalence.EXACT if same else Equivalence.NUMERICS,
        rewritable=False if loader.iterable and not loader.sharded else None,
    )


# ---------------------------------------------------------------------------------- the fixes


class TorchWorkers(Fix):
    """Make the batches in worker processes.

    Why slow: With `num_workers=0` the training process makes each batch itself, on one core, and
    computes nothing meanwhile. With too few workers it waits for them.
    Changes: `num_workers` processes make batches while the model computes, in the same order;
    random augmentation draws other numbers, as each worker has its own seed. How many are best,
    trials tell: too many take cores from the training. More than cores are tried only where those
    that make batches leave the cores idle.
    When not:
    - When an `IterableDataset` is not sharded: every worker would deliver all of it. (Workers of
      WebDataset read shards of their own, and each counts its epoch after `with_epoch`.)
    - When the dataset holds an open file, a lock or a connection: open it in the worker.
    - When processes are spawned (Windows, macOS): the script needs `if __name__ == "__main__":`.
    """

    ahead = True
    usual = 2.0
    edit = SetArgument("num_workers", "{workers}", DATA_LOADER)

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a loader whose workers are fewer than may pay."""
        loader, most = evidence.torch.loader, most_workers(evidence)
        offered = choices(evidence, loader.workers + 1, most)
        if most < 2 or not offered:
            return None
        if loader.workers:
            many = count(loader.workers, "worker")
            title = f"{many} {'are' if loader.workers > 1 else 'is'} too few for the training"
            text, advice = f"by {many}", "Let more workers make the batches."
            text += if_measured(
                lambda: (
                    f", a batch every {ms(evidence.times.input)}, while the model needs "
                    f"{ms(evidence.times.resident)} and one process {costs_said(evidence)}"
                )
            )
        else:
            title = "The training process makes its batches itself"
            text, advice = "with `num_workers=0`", ""
            text += if_measured(
                lambda: (
                    f": a step takes {costs_said(evidence)}, and the model, which waits meanwhile, "
                    f"{ms(evidence.times.resident)}"
                )
            )
        text = f"{named(loader)} is read {text}; {cores_said(evidence)}."
        if max(offered) > cores_per_rank(evidence) > 0:
            share = percent(min(1.0, maker_share(evidence)))
            text += (
                f" Each maker keeps {share} of a core busy: it waits, so more than cores can pay."
            )
        first, code = "", ""
        if loader.iterable and not loader.sharded:
            text += " It was not seen to ask which worker it is in: each may deliver all of it."
            first, code = "Let each worker take its own part of the data", SHARDED
        elif loader.shared_state:
            text += f" Worker processes cannot simply take it over: {loader.shared_state}."
            first, code = "Make what the dataset holds anew in each worker", MADE_LATE
        sure = not loader.workers or not keeps_up(evidence)
        cause = _other_number(evidence, offered, title, text, "beside the step, none waiting", sure)
        return replace(
            cause,
            advice=f"{first}, then let workers make the batches." if first else advice,
            snippet=f"{code}{cause.snippet}",
            rewritable=False if first else None,
        )


SHARDED = """\
def __iter__(self):  # of the dataset: every worker takes its own part
    worker = torch.utils.data.get_worker_info()
    first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
    yield from itertools.islice(self.samples(), first, None, step)


"""

MADE_LATE = """\
def __getitem__(self, index):
    if self._own is None:  # each worker makes its own, and pickling meets none
        self._own = open_data(self.path)  # or numpy.random.default_rng(torch.initial_seed())
    return self._own[index]


"""


class TorchTooManyWorkers(Fix):
    """Start no more workers than there are cores.

    Why slow: More workers than cores deliver nothing more: they take the cores from each other and
    from the training process. In a container `os.cpu_count()` counts the cores of the host.
    Changes: `num_workers` becomes what the cores of each training process allow. Batches come in
    the same order; random augmentation draws other numbers, as each worker has its own seed.
    When not: When the workers mostly wait for a disk or a network.
    """

    ahead = True
    edit = SetArgument("num_workers", "{workers}", DATA_LOADER)

    def look(self, evidence: Evidence) -> Cause | None:
        """Find more workers than cores, or as many: they may disturb the training."""
        loader, width = evidence.torch.loader, max(1, cores_per_rank(evidence))
        offered = choices(evidence, 1, min(width, loader.workers - 1))
        if loader.workers < width or not offered:
            return None
        many = count(loader.workers, "worker")
        title = f"{many} share {count(width, 'core')}"
        text = f"{named(loader)} is read by {many} beside the training; {cores_said(evidence)}."
        used = measured_or(None, lambda: evidence.phase("input").cpu_cores)
        waiting = used is not None and used < IDLE * min(loader.workers, evidence.machine.cores)
        sure = loader.workers > width and not waiting
        return _other_number(evidence, offered, title, text, "that none disturbs", sure)


class TorchWorkerThreads(Fix):
    """Let each worker compute on one thread.

    Why slow: PyTorch gives its own operations one thread in a worker, unless that calls
    `torch.set_num_threads`. OpenCV, NumPy's BLAS and OpenMP know nothing of it: workers × threads
    take the cores from each other.
    Changes: `OPENBLAS_NUM_THREADS=1` for the command sets NumPy's and SciPy's BLAS to one thread;
    PyTorch keeps its own, and a number that a `worker_init_fn` sets becomes 1. OpenCV's threads
    are set by hand, in a `worker_init_fn`. Sums in BLAS may be added up in another order.
    When not:
    - With one or two workers on many cores: there the threads do help.
    - `OMP_NUM_THREADS=1` for the whole command slows a model that trains on the CPU.
    """

    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find workers with more threads than cores that deliver less than as many should."""
        loader, width = evidence.torch.loader, max(1, cores_per_rank(evidence))
        threads = max(loader.item_threads or 1, loader.worker_threads or 1)
        if loader.workers == 0 or threads < 2 or loader.workers * threads <= width:
            return None
        alone, together = made_s(evidence), evidence.times.input
        could = alone / min(loader.workers, width)
        return Cause(
            title=f"{loader.workers} workers run up to {threads} threads each",
            text=f"{named(loader)} uses up to {threads} threads in each of {loader.workers} "
            f"workers; {cores_said(evidence)}. One process makes a batch in {ms(alone)}, "
            f"{loader.workers} together one every {ms(together)} instead of every {ms(could)}.",
            saves=Saving(
                upper(evidence, "workers that do not disturb each other"),
                together - could,
                of="input",
            ),
            where=places(loader),
            advice="Set one thread in each worker: NumPy's by OPENBLAS_NUM_THREADS=1, OpenCV's by "
            "`cv2.setNumThreads(0)` in a `worker_init_fn`, where it uses that.",
            data={"init": None if loader.init is None else asdict(loader.init)},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have a `worker_init_fn` that sets PyTorch's threads set one."""
        init = finding.data.get("init")
        if init is None:
            return
        site = Site(**init)
        source = script.source(site.file)
        inside = set(ast.walk(source.function(site)))
        for call in source.module.calls("torch.set_num_threads"):
            if call in inside and len(call.args) == 1:
                script.replace_node(site.file, call.args[0], "1")

    def environment(self, finding: Finding) -> dict[str, str]:
        """Set NumPy's own BLAS to one thread; PyTorch's is another."""
        return {"OPENBLAS_NUM_THREADS": "1"}

"""Questions of the fixes to a `DataLoader`: what a batch or an item costs, on how many workers."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from trainperf.errors import NotMeasured
from trainperf.fixes.common.pipeline import REAL_SHARE, cores, pipeline_seconds
from trainperf.fixes.common.words import SMALLEST_GAIN, ms, worth
from trainperf.fixes.torch_step._step import UNTRIED
from trainperf.model import Access, BetweenEpochs, Evidence, Loader, Measure, Site, is_taken

ITEM, COLLATE, SAMPLER = "dataset item", "collate", "sampler"
"""Names of the stages that worker processes take over, and of the one they leave behind."""

SWEEP = (1, 2, 4, 8)
"""Numbers of workers worth a trial everywhere; the cores and the need add theirs."""

MAKES = re.compile(r"\b(__getitem__|__getitems__|__next__|\w*collate\w*)\b")
"""Functions that make a batch, or wait for one."""

SEEN_MAKING = 0.1
"""Share of the loop's own thread in those from which it is worth a word: it is as much
waiting as makes a job input-bound."""

WIDE_NOISE = 0.25
"""Noise of the times, as a share of a step, above which they limit no gain."""

WAITING = 0.5
"""Share of the cores below which those that make batches wait (for a disk, a network, a
lock) rather than compute: as many more may wait at the same time as fill it."""

MOST_WAITING = 32
"""Workers that wait, at most: each is a process, with memory of its own and a start."""

FEWEST_SAMPLES = 3
"""Samples of the CPU use while the input was drained, below which it is not known."""

MOST_VARIANTS = 4
"""Trials that the number of workers of one loader may take."""

FITS = 0.90
"""Input that alone takes less than this share of a step could be hidden behind it: the
line below which a job is input-bound (MLPerf Storage)."""

PREFETCH = 2
"""PyTorch's own `prefetch_factor` where there are workers."""

BUILTIN_SAMPLERS = (
    "", "SequentialSampler", "RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler",
    "BatchSampler", "DistributedSampler",
)  # fmt: skip
"""Samplers that draw all their random numbers where an epoch begins, so that fetching
ahead leaves the order alone."""

_REPEATED = 0.5
"""Share of the calls given a file that others were given, from which items share their files."""


def collate_place(evidence: Evidence) -> Site | None:
    """Return the head of the user's own collate function; None if it is a library's."""
    for one in evidence.stages if is_taken(evidence.stages_) else ():
        if one.op == COLLATE and one.by_user and one.function and one.function.line:
            return Site(one.function.file, one.function.line, one.function.name)
    return None


def ranks(evidence: Evidence) -> int:
    """Return how many training processes share the machine; 1 where nothing says so."""
    try:
        return max(1, int(evidence.fact("local_world_size")))
    except (NotMeasured, TypeError, ValueError):
        pass
    if evidence.parallel_ is None or not evidence.parallel_.processes:
        return 1
    here = evidence.parallel_.processes[0].host
    return sum(one.host == here for one in evidence.parallel_.processes)


def cores_per_rank(evidence: Evidence) -> int:
    """Return the whole cores for each training process on the machine, at least 0."""
    return cores(evidence) // ranks(evidence)


def cores_said(evidence: Evidence) -> str:
    """Say how many cores there are: "8 cores are there", for several ranks how many each."""
    several, have = ranks(evidence), cores(evidence)
    # Of a quota below one core, the part that there is.
    said = "1 core is" if have == 1 else f"{have or evidence.machine.cores:g} cores are"
    return f"{said} there for {several} training processes" if several > 1 else f"{said} there"


def made_s(evidence: Evidence) -> float:
    """Return the seconds one process takes to make one step's data: items and collate.

    Without workers that is at most what draining the loader took, which also stands in
    where stages were not timed. Raises `NotMeasured` where there is neither.
    """
    serial = evidence.torch.loader.workers == 0 and is_taken(evidence.times.input_)
    whole = evidence.times.input if serial else math.inf
    timed = {} if not is_taken(evidence.stages_) else stage_seconds(evidence)
    if ITEM in timed:
        return min(whole, timed[ITEM] + timed.get(COLLATE, 0.0))
    if not serial:
        raise NotMeasured("what one process needs to make a batch was not timed")
    return whole


def stage_seconds(evidence: Evidence) -> dict[str, float]:
    """Return the seconds per step of the stages that were timed, by their names."""
    found: dict[str, float] = {}
    for stage in evidence.stages:
        if is_taken(stage.seconds_per_step_):
            found[stage.op] = found.get(stage.op, 0.0) + stage.seconds_per_step
    return found


def step_beside_s(evidence: Evidence, workers: int) -> float:
    """Return the seconds of a step at best if `workers` processes make the batches.

    Making them overlaps with the step then; what the sampler takes stays in the
    training process, where it was timed. Raises `NotMeasured`.
    """
    timed = stage_seconds(evidence) if is_taken(evidence.stages_) else {}
    own = evidence.times.resident + timed.get(SAMPLER, 0.0)
    return max(own, made_s(evidence) / max(1, workers))


def bound_with_workers(evidence: Evidence, workers: int) -> float:
    """Upper bound of the speed-up with `workers` processes: none waits for another.

    Unlike `Evidence.bound_if_input_saves` it knows that workers not only share the
    input but also hide it behind the step: even one worker saves. Raises `NotMeasured`.
    """
    return max(1.0, evidence.times.real / max(step_beside_s(evidence, workers), 1e-9))


def workers_needed(evidence: Evidence) -> int:
    """Return how many workers keep up with the step: what they make over what it takes."""
    return max(1, math.ceil(made_s(evidence) / max(evidence.times.resident, 1e-9)))


def maker_share(evidence: Evidence) -> float:
    """Return what share of a core each process that makes batches keeps busy; above 0.

    That is the CPU use of the user's processes while the loader is drained, over the
    workers (the training process, where there are none) of all ranks. Raises
    `NotMeasured`.
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
    try:
        room = WAITING * evidence.machine.cores / ranks(evidence) / maker_share(evidence)
        useful = min(int(room), MOST_WAITING, 2 * workers_needed(evidence))
    except NotMeasured:
        return width
    return max(width, useful)


def choices(evidence: Evidence, least: int, most: int) -> list[int]:
    """Return at most four numbers of workers from `least` to `most`, around the need.

    They are of 1, 2, 4, 8, the need itself, all cores and all but the trainer's own, and
    above the cores (workers that wait) the need, 16 and the most; those whose batches in
    flight `/dev/shm` cannot hold are left out.
    """
    need, all_cores = workers_needed(evidence), cores_per_rank(evidence)
    prefetch = evidence.torch.loader.prefetch_factor or PREFETCH
    offered = {*SWEEP, min(need, all_cores), all_cores - 1, all_cores}
    if most > all_cores:
        offered |= {need, 16, most}
    suited = [n for n in offered if max(1, least) <= n <= most and fits_shm(evidence, n, prefetch)]
    suited.sort(key=lambda n: (abs(math.log2(n / need)), n))
    return sorted(suited[:MOST_VARIANTS])


def predicted(evidence: Evidence, offered: list[int]) -> int:
    """Return the fewest workers that promise as much as the most do, within 2 %."""
    best = step_beside_s(evidence, max(offered))
    return min(n for n in offered if step_beside_s(evidence, n) <= 1.02 * best)


def likeliest_first(workers: int, offered: list[int]) -> list[int]:
    """Return numbers of workers as they are to be raced: `workers`, then those nearest to it."""
    return sorted(offered, key=lambda n: (abs(math.log2(n / workers)), n))


def waits_at_most(evidence: Evidence) -> float | None:
    """Return what a loop that never waits for its batch gains at most, None if not known.

    That is at the favourable end of the times' noise, and not known where that is wide;
    raises `NotMeasured` where even there nothing is worth a word. A loop that makes its
    batches itself waits no longer than they take.
    """
    times = evidence.times
    if evidence.in_turn and isinstance(times.input_, Measure) and isinstance(times.real_, Measure):
        taken = times.input_.high or times.input
        if taken < SMALLEST_GAIN * (times.real_.low or times.real):
            raise NotMeasured("making a batch takes next to nothing")
    if evidence.times.noise > WIDE_NOISE:
        return None
    kind = evidence.favourable()
    try:
        bound = max(1.0, kind.times.real / max(kind.times.resident, 1e-9))
    except NotMeasured:
        return None
    if not worth(kind, bound):
        raise NotMeasured("the loop does not wait for its batches")
    return bound


def takes_nothing(evidence: Evidence, seconds: float | None) -> bool:
    """Say whether a stage of so many seconds is surely too little of a step to be worth a word.

    Its workers share it. False where it, or a step, was not timed.
    """
    if seconds is None or not is_taken(evidence.times.real_):
        return False
    each = seconds / max(1, evidence.torch.loader.workers)
    return each < SMALLEST_GAIN * evidence.favourable().times.real


def making_share(evidence: Evidence) -> float | None:
    """Return the share of time in which the training's own thread was seen to make a batch.

    None below a tenth, or where no stack was looked at: the dataset may be a library's.
    """
    share = sum(
        one.share
        for one in evidence.functions
        if one.thread == "main" and MAKES.search(f"{one.name} {one.calls_into}")
    )
    return min(1.0, share) if share >= SEEN_MAKING else None


def shm_bytes(evidence: Evidence, workers: int, prefetch: int) -> int:
    """Return the bytes that finished batches take in `/dev/shm`; raises `NotMeasured`."""
    if not evidence.loop.batch_bytes:
        raise NotMeasured("the size of a batch is not known")
    return workers * prefetch * evidence.loop.batch_bytes


def fits_shm(evidence: Evidence, workers: int, prefetch: int) -> bool:
    """Say whether `/dev/shm` holds the batches in flight; True where that is not known."""
    free = evidence.machine.shm_free
    try:
        return free is None or shm_bytes(evidence, workers, prefetch) <= free
    except NotMeasured:
        return True


def keeps_order(loader: Loader) -> bool:
    """Say whether other workers leave every sample and its order exactly as they are.

    They do for a map-style dataset whose items draw no random numbers, under a sampler
    of PyTorch's.
    """
    return not loader.iterable and loader.random is False and loader.sampler in BUILTIN_SAMPLERS


def places(loader: Loader) -> tuple[Site, ...]:
    """Return where the loader is built, if that is in the user's source."""
    return (loader.where,) if loader.where is not None else ()


def named(loader: Loader) -> str:
    """Name the dataset at the start of a sentence: "`Images`"; a plain list has no name."""
    plain = loader.dataset in ("list", "tuple", "dict") or not loader.dataset.isidentifier()
    return "The dataset" if plain else f"`{loader.dataset}`"


def costs_said(evidence: Evidence) -> str:
    """Say what a batch costs one process: "70.0 ms for its items and 5.0 ms to collate"."""
    timed = stage_seconds(evidence) if is_taken(evidence.stages_) else {}
    if ITEM not in timed:
        return ms(made_s(evidence))
    collate = timed.get(COLLATE)
    more = f" and {ms(collate)} to collate them" if collate else ""
    return f"{ms(timed[ITEM])} for the items{more}"


def dearest(
    evidence: Evidence, names: Collection[str], *, cold: bool = False
) -> tuple[Access, float] | None:
    """Return the access of such a name that items spend most on, and what saving it gives at most.

    That is what it takes itself, or all that items take where what follows it is slower for it
    (`cold`). None where the loop does not wait for its items, each has a file of its own, or such
    accesses are a small part of what it waits for. Raises `NotMeasured`.
    """
    accesses = evidence.torch.loader.accesses
    found = [one for one in accesses if one.name in names and one.repeated >= _REPEATED]
    if not found or not evidence.input_bound:
        return None
    access = max(found, key=lambda one: one.share)
    items = stage_seconds(evidence).get(ITEM, 0.0) / max(pipeline_seconds(evidence), 1e-9)
    if min(1.0, items) * access.share < REAL_SHARE:
        return None
    share = min(1.0, items) * (1.0 if cold else access.share)
    bound = evidence.bound_if_input_saves(evidence.times.input * share)
    return (access, bound) if worth(evidence, bound) else None


def epoch_steps(evidence: Evidence, loader: Loader) -> int:
    """Return the steps of an epoch; raises `NotMeasured` where nothing tells them."""
    pause = evidence.between_epochs
    steps = (pause.epoch_steps if pause else None) or evidence.loop.epoch_steps or loader.batches
    if not steps:
        raise NotMeasured("how many steps an epoch has is not known")
    return steps


def restart_s(evidence: Evidence, loader: Loader) -> float:
    """Return what starting the workers takes each time; raises `NotMeasured`.

    The smaller of what opening the loader took and of what passes between epochs until
    the first batch, where both are known: the first also holds what comes only once.
    """
    pause = evidence.between_epochs
    known = [loader.worker_start_s, pause.restart_s if pause else None]
    seconds = [each for each in known if each is not None]
    if not seconds:
        raise NotMeasured("no start of the workers was timed")
    return min(seconds)


@dataclass(frozen=True)
class Starts:
    """An epoch of `steps` with the start of its loader: seconds, and what no start gives."""

    steps: int
    seconds: float
    restart: float
    pause_s: float
    bound: float | None

    @property
    def basis(self) -> str:
        """What the bound rests on."""
        known = self.bound is not None
        return "the start of the loader against the length of an epoch" if known else UNTRIED

    @property
    def epoch(self) -> dict[str, float]:
        """The epoch, as a finding's data has it."""
        return {"steps": self.steps, "seconds": self.seconds, "pause_s": self.pause_s}


def starts_of(evidence: Evidence, loader: Loader) -> Starts | None:
    """Return what starts take of each epoch; None if little, raises `NotMeasured`."""
    steps, restart = epoch_steps(evidence, loader), restart_s(evidence, loader)
    pause = evidence.between_epochs
    between = pause.seconds if pause is not None and pause.sure else restart
    whole = steps * evidence.times.real + max(restart, between)
    bound = whole / (whole - restart)
    besides = max(0.0, whole - steps * evidence.times.real - restart)
    return Starts(steps, whole, restart, besides, bound) if worth(evidence, bound) else None


def starts_to_try(evidence: Evidence, loader: Loader) -> Starts | None:
    """Return the same for what is to be tried: not timed, or a matter of noise.

    None where it is surely too little, or an epoch is so long that a start hardly matters.
    """
    steps, pause = epoch_steps(evidence, loader), evidence.between_epochs
    between = pause.seconds if pause is not None and pause.sure else 0.0
    try:
        found = starts_of(evidence.favourable(), loader)
    except NotMeasured:
        whole = steps * evidence.times.real + between
        return None if whole > LONG_EPOCH_S else Starts(steps, whole, 0.0, between, None)
    return None if found is None else replace(found, pause_s=between)


LONG_EPOCH_S = 60.0
"""Seconds of an epoch above which a start that was not timed is hardly worth a trial: workers
mostly start in a second or two."""

_BUILT_EPOCHS = 3
"""Epochs seen, from which as many loaders of one place are one for each epoch; fewer may
be one each for training, validation and test."""

_BUILT_OFTEN = 10
"""Loaders built at one place from which they are built within an epoch."""


def built_each(loader: Loader, pause: BetweenEpochs | None) -> str:
    """Say how often the loader is built anew: "epoch", "step" (or every few), "" if once."""
    epochs = pause.epochs_seen if pause is not None else 0
    if epochs >= _BUILT_EPOCHS and loader.built >= epochs:
        return "epoch"
    if epochs < _BUILT_EPOCHS and loader.built >= _BUILT_OFTEN:
        return "step"
    return ""

"""A `DataLoader` without worker processes, or with too few."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import upper
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.fixes.dataloader._edits import seen_in_run, set_setting
from trainperf.fixes.dataloader._loader import (
    FITS,
    MOST_VARIANTS,
    PREFETCH,
    SWEEP,
    bound_with_workers,
    choices,
    cores_per_rank,
    cores_said,
    costs_said,
    fits_shm,
    keeps_order,
    likeliest_first,
    maker_share,
    making_share,
    most_workers,
    named,
    places,
    predicted,
    waits_at_most,
)
from trainperf.fixes.torch_step._step import UNTRIED
from trainperf.model import Equivalence, Evidence, Finding, Loader
from trainperf.rewrite import Script

SHARDED = """\
import itertools

from torch.utils.data import IterableDataset, get_worker_info


class Sharded(IterableDataset):
    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):  # every worker takes its own part
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        yield from itertools.islice(self.dataset, first, None, step)


loader = DataLoader(Sharded(dataset), ..., num_workers={workers})
"""

OPENED_LATE = """\
def __getitem__(self, index):
    if self._file is None:  # each worker opens its own, and pickling meets none
        self._file = open_data(self.path)
    return self._file[index]


loader = DataLoader(dataset, ..., num_workers={workers})
"""


class Workers(Fix):
    """Make the batches in worker processes.

    ## Why it is slow
    With `num_workers=0` the training process loads, transforms and collates each batch
    itself, on one core, and computes nothing meanwhile. With too few workers it
    waits for them.

    ## What changes
    `num_workers` processes make batches while the model computes. Batches come in the
    same order. Random augmentation draws other numbers: each worker has its own seed.
    How many are best, trials tell: too many take cores from the training itself. More
    than cores are tried only where those that make batches leave the cores idle.

    ## When not to
    - When an `IterableDataset` is not sharded: every worker would deliver all of it.
    - When the dataset holds an open file, a lock or a connection: open it in the worker.
    - When processes are spawned (Windows, macOS, or set so): the script needs
      `if __name__ == "__main__":`, and the dataset must be picklable.
    - When epochs are very short: the workers start anew for each.
    - Of WebDataset each worker reads shards of its own, and counts an epoch by itself after
      `with_epoch`: how many workers serve is yours to tell.
    """

    framework = "torch"
    category = "input"
    ahead = True
    usual = 2.0
    equivalence = Equivalence.EXACT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a loader that cannot keep up, and whose workers are fewer than may pay."""
        loader, most = evidence.torch.loader, most_workers(evidence)
        if not evidence.input_bound or most < 2 or loader.workers >= most:
            return None
        if loader.workers and evidence.times.input < FITS * evidence.times.resident:
            return None
        offered = choices(evidence, loader.workers + 1, most)
        if not offered:
            return None
        bound = bound_with_workers(evidence, max(offered))
        if not worth(evidence, bound):
            return None
        workers, obstacle = predicted(evidence, offered), _obstacle(loader)
        return self.finding(
            title=_title(loader),
            text=_text(evidence, loader, max(offered)) + (f" {obstacle}" if obstacle else ""),
            bound=bound,
            bound_basis=upper(evidence, f"{max(offered)} workers beside the step, none waiting"),
            where=places(loader),
            advice=_advice(loader),
            snippet=_snippet(loader, workers),
            data={
                "workers": workers,
                "variants": [{"workers": n} for n in likeliest_first(workers, offered)],
                **seen_in_run(evidence),
            },
            equivalence=self.equivalence if keeps_order(loader) else Equivalence.NUMERICS,
            rewritable=False if obstacle else None,
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try as many workers as cores, and fewer, unless the loop surely does not wait."""
        loader, width = evidence.torch.loader, cores_per_rank(evidence)
        if width < 2 or loader.workers >= width or (loader.iterable and not loader.sharded):
            return None
        if loader.shared_state:
            return None
        bound, share = waits_at_most(evidence), making_share(evidence)
        offered = dict.fromkeys([width, *(n for n in SWEEP if n < width)])
        prefetch = loader.prefetch_factor or PREFETCH
        fitting = (n for n in offered if loader.workers < n <= width)
        suited = [n for n in fitting if fits_shm(evidence, n, prefetch)]
        if not suited:
            return None
        text = f"{named(loader)} is read with `num_workers={loader.workers}`; "
        text += f"{cores_said(evidence)}."
        if share is not None and loader.workers == 0:
            seen = percent(share)
            text += f" The training's own thread was seen making batches {seen} of the time."
        if loader.shared_state is None:
            text += " Whether worker processes can take the dataset over was not looked at."
        return self.finding(
            title=_title(loader) if loader.workers == 0 else "More workers could make the batches",
            text=text,
            bound=bound,
            bound_basis=UNTRIED if bound is None else "no step waits for its batch",
            where=places(loader),
            advice=_advice(loader),
            snippet=_snippet(loader, suited[0]),
            data={
                "workers": suited[0],
                "variants": [{"workers": n} for n in suited[:MOST_VARIANTS]],
                **seen_in_run(evidence),
            },
            equivalence=self.equivalence if keeps_order(loader) else Equivalence.NUMERICS,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set `num_workers` where the loader is built, or the default that it has there."""
        workers = str(finding.data["workers"])
        set_setting(script, finding.where[0], "num_workers", workers, finding.data)


def _title(loader: Loader) -> str:
    if loader.workers == 0:
        return "The training process makes its batches itself"
    few = "One worker does" if loader.workers == 1 else f"{loader.workers} workers do"
    return f"{few} not keep up with the training"


def _text(evidence: Evidence, loader: Loader, most: int) -> str:
    step, there = ms(evidence.times.resident), cores_said(evidence)
    why = _waiting(evidence, loader, most)
    if loader.workers == 0:
        return (
            f"{named(loader)} is read with `num_workers=0`: a step takes {costs_said(evidence)}, "
            f"and the model, which waits meanwhile, {step}; {there}.{why}"
        )
    many = "one worker" if loader.workers == 1 else f"{loader.workers} workers"
    return (
        f"{named(loader)} is read by {many}, which deliver a batch every "
        f"{ms(evidence.times.input)}, while the model needs {step}. One process takes "
        f"{costs_said(evidence)}; {there}.{why}"
    )


def _waiting(evidence: Evidence, loader: Loader, most: int) -> str:
    """Why more workers than cores are offered, as a sentence; "" if none are."""
    if most <= cores_per_rank(evidence):
        return ""
    if loader.workers == 0:
        maker = "The process that makes the batches keeps"
    else:
        maker = "The one worker keeps" if loader.workers == 1 else "Each worker keeps"
    return (
        f" {maker} {percent(min(1.0, maker_share(evidence)))} of a core busy while it does: it "
        "waits (for storage, a network, a lock) rather than computes, so more workers than "
        "cores can pay."
    )


def _obstacle(loader: Loader) -> str:
    """Why workers cannot simply be added, as a sentence; "" if nothing stands against it."""
    if loader.iterable and loader.sharded is None:
        return "Whether each worker takes a part of its own is not known of such a dataset."
    if loader.iterable and not loader.sharded:
        return (
            "It is an iterable dataset that does not ask which worker it is in: each worker "
            "would deliver all of it."
        )
    if loader.shared_state is None:
        return "Whether worker processes can take the dataset over was not looked at."
    if loader.shared_state:
        return f"Worker processes cannot simply take it over: {loader.shared_state}."
    return ""


def _advice(loader: Loader) -> str:
    """Say what to do, without a number of workers: the trials choose that, for the snippet."""
    if loader.iterable and not loader.sharded:
        return "Let each worker take its own part of the data, then let workers make the batches."
    if loader.shared_state:
        return "Open what the dataset holds in the worker, then let workers make the batches."
    if loader.workers:
        return "Let more workers make the batches."
    return "Let worker processes make the batches."


def _snippet(loader: Loader, workers: int) -> str:
    text = f"loader = DataLoader(dataset, ..., num_workers={workers})"
    if loader.iterable and not loader.sharded:
        text = SHARDED.replace("{workers}", str(workers)).rstrip()
    elif loader.shared_state:
        text = OPENED_LATE.replace("{workers}", str(workers)).rstrip()
    return text

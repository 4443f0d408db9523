"""Worker processes that each start as many threads as there are cores."""

from __future__ import annotations

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import upper
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.dataloader._edits import check_call
from trainperf.fixes.dataloader._loader import cores_per_rank, cores_said, made_s, named, places
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.rewrite.imports import bound, everywhere

ONE_THREAD = '''\
def {name}(worker):
    """Let OpenCV compute on one thread in a worker: other workers have the other cores."""
    {cv2}.setNumThreads(0)
'''

SNIPPET = """\
# export OPENBLAS_NUM_THREADS=1  # NumPy's BLAS, for the whole command
import cv2


def one_thread(worker):
    cv2.setNumThreads(0)


loader = DataLoader(dataset, ..., num_workers={workers}, worker_init_fn=one_thread)"""


class WorkerThreads(Fix):
    """Let each worker compute on one thread.

    ## Why it is slow
    PyTorch gives its own operations one thread in a worker. OpenCV, NumPy's BLAS and
    OpenMP know nothing of that: each worker starts a thread for every core, and
    workers × threads take the cores from each other.

    ## What changes
    `OPENBLAS_NUM_THREADS=1` for the command sets NumPy's and SciPy's BLAS to one thread:
    PyTorch has its own and keeps its threads. Where the loader's file or the dataset's imports
    OpenCV, a `worker_init_fn` sets that to one thread in the workers. Sums in BLAS may be added
    up in another order.

    ## When not to
    - With one or two workers on many cores: there the threads do help.
    - The loader has a `worker_init_fn` already: add the lines to that one. None is written.
    - `OMP_NUM_THREADS=1` for the whole command slows a model that trains on the CPU.
    """

    framework = "torch"
    category = "input"
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find workers with more threads than cores that deliver less than as many should."""
        loader, width = evidence.torch.loader, max(1, cores_per_rank(evidence))
        threads = loader.item_threads or 1
        if loader.workers == 0 or threads < 2 or loader.workers * threads <= width:
            return None
        if not evidence.input_bound:
            return None
        alone, together = made_s(evidence), evidence.times.input
        could = alone / min(loader.workers, width)
        bound = evidence.bound_if_input_saves(together - could)
        if not worth(evidence, bound):
            return None
        own = " Add the lines to its own `worker_init_fn`." if loader.worker_init else ""
        return self.finding(
            title=f"{loader.workers} workers run up to {threads} threads each",
            text=f"{named(loader)} uses up to {threads} threads in each of {loader.workers} "
            f"workers; {cores_said(evidence)}. One process makes a batch in {ms(alone)}, "
            f"{loader.workers} together one every {ms(together)} instead of every {ms(could)}.",
            bound=bound,
            bound_basis=upper(evidence, "workers that do not disturb each other"),
            where=places(loader),
            advice="Set one thread in each worker: NumPy's by OPENBLAS_NUM_THREADS=1, OpenCV's by "
            f"`worker_init_fn`.{own}",
            snippet=SNIPPET.replace("{workers}", str(loader.workers)),
            data={"item": None if loader.item is None else loader.item.file},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the loader a `worker_init_fn` where OpenCV is imported and there is none."""
        for site in finding.where:
            one_thread_of_opencv(script, site, finding.data["item"])

    def environment(self, finding: Finding) -> dict[str, str]:
        """Set NumPy's own BLAS to one thread; PyTorch's is another."""
        return {"OPENBLAS_NUM_THREADS": "1"}


def one_thread_of_opencv(script: Script, site: Site, item_file: str | None) -> None:
    """Give the loader built at `site` a `worker_init_fn` that sets OpenCV to one thread.

    Nothing is written where neither its file nor the dataset's imports OpenCV, or it has one.
    """
    files = {site.file} if item_file is None else {site.file, item_file}
    imported = any(_imports_opencv(script, file) for file in files)
    if not imported or "worker_init_fn" in script.call_keywords(site):
        return
    check_call(script, site)
    name = script.free_name(site.file, "one_thread")
    cv2 = script.module_name(site.file, "cv2")
    script.set_keyword(site, "worker_init_fn", name)
    script.insert_function(site.file, ONE_THREAD.format(name=name, cv2=cv2))


def _imports_opencv(script: Script, file: str) -> bool:
    try:
        tree = script.module(file)
    except CannotRewrite:  # a library's
        return False
    return any("cv2" in (dotted for dotted, _, _ in bound(node)) for node in everywhere(tree))

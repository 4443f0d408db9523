"""A `PyDataset` that one worker loads."""

from __future__ import annotations

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import cores, input_at_most, known, saved_on, upper
from trainperf.fixes.common.words import SMALLEST_GAIN, ms, worth
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.rewrite import Script

QUEUE = 10
"""Keras's default `max_queue_size`: more workers than that need a longer queue."""

TENSORFLOW_CALLS = ("error_handler", "op_dispatch_handler")
"""The wrappers of TensorFlow's and Keras's functions. Their threads do not survive the
fork of a worker process."""

SAME_NUMBERS = (
    "Its batches draw random numbers: of processes all would draw the same, as Keras does not "
    "seed them."
)
"""Keras 3 starts its pool with `random_seed` None (`init_pool_generator`)."""


class PyDatasetWorkers(Fix):
    """Load the batches of a `PyDataset` in several workers.

    ## Why it is slow
    A `PyDataset` (`Sequence` in Keras 2) makes its batches in one background thread
    unless told otherwise. Python runs one thread at a time, so that thread also takes
    turns with the training loop.

    ## What changes
    `workers` is set to the cores there are, and `use_multiprocessing` to True: each
    worker is a process with a Python of its own. Batches still come in order.
    Where `__getitem__` calls TensorFlow, workers stay threads: TensorFlow does not
    survive a fork. They stay threads as well where it draws random numbers: Keras does not
    seed its worker processes, so all of them would draw the same.

    ## When not to
    When random numbers have to be the same from run to run: seed a generator by the index.
    When one of your own classes, which trainperf does not look into, draws random numbers:
    set `use_multiprocessing` to False.
    When the dataset holds an open file or connection: open it in `__getitem__`.
    When processes are spawned (Windows, macOS, or set so): the script needs
    `if __name__ == "__main__":` around what trains.
    When memory is short: each process holds what it touches.
    """

    category = "input"
    framework = "keras"
    usual = 2.0
    equivalence = Equivalence.EXACT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a PyDataset with at most one worker that the model waits for."""
        width = cores(evidence)
        if not _alone(evidence) or not evidence.input_bound:
            return None
        seconds = evidence.times.input
        bound = evidence.bound_if_input_saves(saved_on(width, seconds))
        if not worth(evidence, bound):
            return None
        return self._finding(
            evidence,
            f"The `PyDataset` makes its batches in one worker, {ms(seconds)} each, while "
            f"the model needs {ms(evidence.times.resident)} a step; {width} cores are there.",
            bound,
            upper(evidence, f"batches made on {width} cores at once"),
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try workers wherever what the input takes, or the step without it, is not known."""
        most = input_at_most(evidence)
        if not _alone(evidence) or most <= 1 + SMALLEST_GAIN:
            return None
        return self._finding(
            evidence,
            f"The `PyDataset` makes its batches in one worker; {cores(evidence)} cores are there.",
            known(most),
            upper(evidence, "batches cost nothing"),
        )

    def _finding(self, evidence: Evidence, text: str, bound: float | None, basis: str) -> Finding:
        loop, width = evidence.loop, cores(evidence)
        settings = _settings(evidence, width)
        lines = [f"train_data.{name} = {value}" for name, value in settings.items()]
        legacy = evidence.framework.legacy_keras
        inside = ", ".join(f"{name}={value}" for name, value in settings.items())
        drawn = loop.pydataset_random is True
        return self.finding(
            title="One worker loads the batches",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=(loop.where,) if loop.where else (),
            advice=f"Let {width} workers make the batches{', as threads' if drawn else ''}."
            + (f" {SAME_NUMBERS}" if drawn else ""),
            snippet=f"model.fit(train_data, {inside})" if legacy else "\n".join(lines),
            data={**settings, **({"legacy": True} if legacy else {})},
            equivalence=Equivalence.NUMERICS if drawn else self.equivalence,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the workers on the dataset just before `fit`, or in `fit` in Keras 2."""
        site = finding.where[0]
        settings = dict(finding.data)
        if settings.pop("legacy", False):
            for name, value in settings.items():
                script.set_keyword(site, name, str(value))
            return
        argument = script.argument(site, 0, "x")
        if argument is None:
            raise CannotRewrite("the call does not write out its dataset")
        name = script.name_argument(argument, "train_data", "batches")
        for setting, value in settings.items():
            script.insert_before(site, f"{name}.{setting} = {value}")


def _alone(evidence: Evidence) -> bool:
    """Whether one worker makes the batches of a `PyDataset`, and there are cores for more."""
    given = evidence.loop.pydataset_arguments
    one = "workers" in given and given["workers"] in (None, 0, 1)
    return evidence.loop.input_kind == "PyDataset" and one and cores(evidence) > 1


def _settings(evidence: Evidence, width: int) -> dict[str, object]:
    """Return workers, processes unless TensorFlow runs in them, and a queue that feeds them."""
    loads = [each for each in evidence.functions if each.thread == "worker"]
    threads = any(each.calls_into in TENSORFLOW_CALLS for each in loads)
    threads = threads or evidence.loop.pydataset_random is True
    settings: dict[str, object] = {"workers": width}
    given = evidence.loop.pydataset_arguments
    if not threads:
        settings["use_multiprocessing"] = True
    elif given.get("use_multiprocessing"):
        settings["use_multiprocessing"] = False
    queue = given.get("max_queue_size")
    if width > (queue if isinstance(queue, int) else QUEUE):
        settings["max_queue_size"] = 2 * width
    return settings

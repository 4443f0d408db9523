"""A diagnosis beside the job that it is of: its environment is taken over, itself is left alone."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from trainperf import ranks
from trainperf.errors import TrainperfError
from trainperf.model import Run
from trainperf.model.diagnosis import RunningJob
from trainperf.run.running import Job, is_alive
from trainperf.samplers.process_tree import ProcessTree
from trainperf.settings import PREFIX
from trainperf.trial.legs.ports import MASTER_PORT, with_own_port

OURS = ("TERM", "COLUMNS", "LINES", "COLORTERM", "NO_COLOR", "FORCE_COLOR")
"""Variables of the terminal that the report goes to, and of trainperf (`PREFIX`): they stay."""


def startable(job: Job) -> Job:
    """The job as it can be started while it runs: its ranks meet at another port.

    Raises `TrainperfError` where they could not, or where its launcher is not on this machine.
    """
    place = ranks.find(job.environment)
    if place is not None:
        raise TrainperfError(
            f"process {job.asked} is rank {place.rank} of {place.world_size} (by {place.by}), and "
            "no launcher of it is seen here",
            "put trainperf before the script in the launcher's command: docs/several-hosts.md",
        )
    ranks.check_alone(job.command, job.environment)
    run = Run(job.command, job.cwd, job.label, env=job.environment)
    run = with_own_port(run, several=MASTER_PORT in job.environment)
    return replace(job, command=run.command, environment=run.env)


def said(job: Job) -> tuple[str, str]:
    """Lines that say what will be run, before it is."""
    which = f"process {job.asked}"
    if job.pid != job.asked:
        which += f" was started by process {job.pid}, which"
    return (
        f"{which} runs: cd {shlex.quote(job.cwd)} && {shlex.join(job.command)}",
        "the same is run beside it, with its whole environment, which is not kept",
    )


def watch(job: Job) -> Callable[[], RunningJob]:
    """Look at a running job from outside from now on; what is returned says what was seen of it."""
    tree, began = ProcessTree(job.pid), time.monotonic()
    cpu_s = tree.read().cpu_s

    def seen() -> RunningJob:
        ended = not is_alive(job)
        cores = (tree.read().cpu_s - cpu_s) / (time.monotonic() - began)
        return RunningJob(
            pid=job.asked,
            started_by=job.pid,
            began=datetime.fromtimestamp(job.began, UTC).isoformat(timespec="seconds"),
            ended=ended,
            cores=None if ended else cores,
        )

    return seen


@contextmanager
def environment_of(job: Job) -> Iterator[None]:
    """Have the environment of a job in place of one's own, for all that is started meanwhile."""
    before = dict(os.environ)
    ours = {name for name in {*before, *job.environment} if name in OURS or name.startswith(PREFIX)}
    both = {name: text for name, text in before.items() if name in ours}
    both |= {name: text for name, text in job.environment.items() if name not in ours}
    os.environ.clear()
    os.environ.update(both)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)

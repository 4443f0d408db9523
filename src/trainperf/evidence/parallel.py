"""The processes and devices of a job, from what each of them recorded."""

from __future__ import annotations

from trainperf.evidence.events import Observed
from trainperf.model import Machine, Parallel, Recording


def parallel(recording: Recording, observed: Observed, machine: Machine) -> Parallel | None:
    """The job's ranks, their exchange and skew; None for one process on one device."""
    return None

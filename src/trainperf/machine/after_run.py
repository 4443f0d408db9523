"""A look at the run's files, objects and channels, once it has ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from trainperf.evidence.objects import seen
from trainperf.machine.storage import channels, read_process, s3_probe
from trainperf.machine.storage.reads import NO_FILES, NO_NAMES
from trainperf.model import Machine, Objects, Recording

FROM_S3 = "the steps opened no files: they read from S3"

NOT_PROBED = "not probed: the run was cut short"


def probe_storage(
    recording: Recording, machine: Machine, interrupted: Callable[[], bool] = lambda: False
) -> Recording:
    """The recording, with what the files and objects that it names can give.

    Reads a bounded sample of the files that the script read, and asks S3 for a few ranges
    of the objects that it named; writes nothing. Where the run was cut short nothing is
    read or asked, and the recording says so; `interrupted` says that the user wants an end
    while it is looked at. No file system, server or program is waited for without an end.
    """
    objects = seen(recording)
    remote = any(one.requests for one in objects)
    if not recording.ending.complete:  # else the reader has no time for a few more seconds
        return replace(
            recording,
            reads_reason=f"not looked at: the run was {recording.ending.value}",
            objects=_unprobed(objects),
            channels=channels.channels(),
        )
    instance = machine.instance
    kind = instance.type if instance else None
    found, why = read_process.probe(recording, kind, interrupted=interrupted)
    environment = {**os.environ, **recording.run.env}
    region = instance.region if instance else None
    return replace(
        recording,
        reads=found,
        reads_reason=FROM_S3 if remote and why in (NO_FILES, NO_NAMES) else why,
        objects=_unprobed(objects)
        if interrupted()
        else s3_probe.probe(objects, environment, region),
        channels=channels.channels(),
    )


def _unprobed(objects: Sequence[Objects]) -> tuple[Objects, ...]:
    return tuple(replace(one, reason=NOT_PROBED) for one in objects)

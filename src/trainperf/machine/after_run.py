"""A look at the run's files, objects and channels, once it has ended."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from trainperf.evidence.objects import seen
from trainperf.machine.storage import reads, s3_probe
from trainperf.model import Channel, Machine, Reads, Recording

FROM_S3 = "the steps opened no files: they read from S3"

NOT_PROBED = "not probed: the run was cut short"

_CONFIG = "opt/ml/input/config/inputdataconfig.json"
_DATA = "/opt/ml/input/data"


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
    instance, complete = machine.instance, recording.ending.complete
    found: tuple[Reads, ...] = ()
    why = f"not looked at: the run was {recording.ending.value}"
    if complete:  # else the reader has no time for a few more seconds
        kind = instance.type if instance else None
        found, why = reads.probe(recording, kind, interrupted=interrupted)
    if complete and not interrupted():
        environment = {**os.environ, **recording.run.env}
        objects = s3_probe.probe(objects, environment, instance.region if instance else None)
    else:
        objects = tuple(replace(bucket, reason=NOT_PROBED) for bucket in objects)
    why = FROM_S3 if remote and why in (reads.NO_FILES, reads.NO_NAMES) else why
    return replace(recording, reads=found, reads_reason=why, objects=objects, channels=channels())


def channels(root: Path = Path("/")) -> tuple[Channel, ...]:
    """The channels by name; empty outside of SageMaker, and where the file cannot be read.

    `TrainingInputMode` is the mode of a channel in that file; without it a channel has
    the mode of the job, which is not told: "".
    """
    try:
        config = json.loads((root / _CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    if not isinstance(config, dict):
        return ()
    return tuple(
        Channel(
            name=name,
            mode=str(one.get("TrainingInputMode") or ""),
            path=f"{_DATA}/{name}",
            source=_source(one),
            content_type=str(one.get("ContentType") or ""),
        )
        for name, one in sorted(config.items())
        if isinstance(one, dict)
    )


def _source(one: dict[str, object]) -> str:
    kind = str(one.get("FileSystemType") or "")
    if kind:
        return "FSx" if kind == "FSxLustre" else kind
    return "S3" if one.get("S3DistributionType") else ""

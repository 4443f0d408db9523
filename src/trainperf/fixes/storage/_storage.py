"""Shared by the fixes of storage: evidence with files that are read, and the cost of reading."""

from __future__ import annotations

from typing import Any

from trainperf.errors import NotMeasured
from trainperf.fixes.common.words import MIB, ms
from trainperf.model import Channel, Evidence, Objects, Reads, Volume
from trainperf.model.words import size

FROM_STORAGE = 0.10
"""With less of its bytes from storage than this share, a step was fed from the kernel's cache."""

REMOTE = ("efs", "lustre", "network", "nfs", "s3 mount")
"""Volumes where each open is a request over the network, whatever the cache holds."""

SMALL_FILE = 1 * MIB
"""Mean bytes of a file below which a disk waits for each file more than for its bytes: gp3
gives 125 MiB/s and answers in a millisecond, the time of 128 KiB; our choice."""

LEAST_OPENS = 2.0
"""Opens in each step: with less, a file serves many samples already."""

LEAST_FILES = 100

MANY = 1000
"""Files of a channel in FastFile mode from which its mode is the matter; our choice."""

VARYING = 1.25
"""Cold reads in the run took up to so much longer than in the probe (measured under a limit
of requests a second: 1.15 times); a bound must not be too low for that."""

NEARLY_ALL = 0.9
"""Share of a step's bytes that come from storage, from which its waiting may be for them."""

REAL_PART = 0.2
"""Share of the waiting that the probe must explain; our choice."""

LEAST_SAMPLES = 3

SHARD = "about 150 MB"
"""The size of shards in SageMaker's advice on small files."""


def from_storage(one: Reads) -> bool:
    """Whether a step's bytes came from storage, rather than from the kernel's cache.

    Raises `NotMeasured` where either is not known.
    """
    if one.stored_per_step is None or not one.bytes_per_step:
        raise NotMeasured("what a step reads from storage is not known")
    return one.stored_per_step >= FROM_STORAGE * one.bytes_per_step


def file_seconds(one: Reads, remote: bool = False) -> tuple[float, float | None]:
    """Return the share of a step's bytes from storage, and mean seconds to open and read a file.

    Of a few bytes none is worth a word. What is not known comes from afar, where it is `remote`;
    else that raises `NotMeasured`.
    """
    try:
        stored = (one.stored_per_step or 0.0) / (one.bytes_per_step or 1.0)
        share = min(1.0, stored) if from_storage(one) else 0.0
    except NotMeasured:
        if not remote and one.volume.kind not in REMOTE:
            raise
        share = 1.0
    cold, warm = one.cold_file_s, one.warm_file_s
    if cold is None or warm is None:
        return share, (warm if cold is None and not share else cold)
    return share, share * cold + (1 - share) * warm


def by_file(one: Reads) -> bool:
    """Whether each step opens many files so small that opening them is what costs."""
    mean, opens = one.mean_bytes, one.opens_per_step
    if mean is None or opens is None:
        return False
    return mean <= SMALL_FILE and opens >= LEAST_OPENS and one.files >= LEAST_FILES


def epoch_bytes(one: Reads, evidence: Evidence) -> float:
    """Bytes that an epoch reads there: of the files seen, or of all its steps if that is more.

    Raises `NotMeasured` where there are more files than were seen, and an epoch's length is
    not known.
    """
    steps = evidence.loop.epoch_steps
    if steps and one.bytes_per_step:
        return max(float(one.total_bytes), steps * one.bytes_per_step)
    if one.at_least:
        raise NotMeasured("not all files were seen")
    return float(one.total_bytes)


def through(one: Reads, channel: Channel) -> bool:
    """Whether files of a volume came by way of a channel."""
    inside = channel.path.rstrip("/") + "/"
    return any(path.startswith(inside) for path in one.examples)


def at_most(one: Reads, seconds: float, evidence: Evidence) -> float:
    """Seconds of a step that storage takes at most, where the probe says `seconds`.

    Where nearly all bytes came from storage, and the probe explains a real part of it, that
    is all the waiting in which nothing was computed: a volume with a burst that had been
    used up is slower in the run than in a probe after a pause (measured: four times).
    """
    most = VARYING * seconds
    idle = _idle_s(evidence)
    from_there = (one.stored_per_step or 0.0) >= NEARLY_ALL * (one.bytes_per_step or 0.0) > 0
    return max(most, idle) if from_there and seconds >= REAL_PART * idle else most


def slower_said(most: float, seconds: float) -> str:
    """Say that the run's reads may have been slower than the probe's; "" where they were not."""
    if most <= VARYING * seconds:
        return ""
    return (
        f" In the run {ms(most)} of a step passed without computing: reads may have been slower "
        "then than in the probe, which came after a pause."
    )


def _idle_s(evidence: Evidence) -> float:
    """Seconds of a step's waiting in which no process of the script computed; 0 if not known."""
    try:
        use = evidence.phase("real")
    except NotMeasured:
        return 0.0
    if use.cpu_cores is None or use.samples < LEAST_SAMPLES:
        return 0.0
    real = evidence.times.real
    return max(0.0, min(real - evidence.times.resident, real * (1 - use.cpu_cores)))


def waits(seconds: float, most: float, what: str) -> dict[str, Any]:
    """Say how many seconds of a step go to storage by the probe, and for what.

    `waits_most_s` is the waiting in the run where that was longer.
    """
    longer = most if most > VARYING * seconds else seconds
    return {"waits_s": seconds, "waits_most_s": longer, "waits_for": what}


def folder(one: Reads, otherwise: str = "/data") -> str:
    """The folder of the files that were seen, to stand in a snippet."""
    return (one.examples[0].rpartition("/")[0] if one.examples else "") or otherwise


def readers(evidence: Evidence) -> int:
    """How many read at once at least: the workers of a PyTorch loader, else one."""
    try:
        return max(1, evidence.torch.loader.workers)
    except NotMeasured:
        return 1


def rate(value: float) -> str:
    """Say a rate: "125 MiB/s"."""
    return f"{size(value)}/s"


def place(volume: Volume) -> str:
    """Say where files lie: "/data (EBS, nvme1n1)"."""
    names = {"ebs": "EBS", "nvme": "local NVMe", "efs": "EFS", "nfs": "NFS", "lustre": "Lustre"}
    kind = names.get(volume.kind, volume.kind) or volume.filesystem
    device = volume.device if volume.kind in ("ebs", "nvme", "disk") else ""
    inside = ", ".join(filter(None, (kind, device)))
    return f"{volume.mount or 'an unknown mount'} ({inside})" if inside else volume.mount


def per_step(one: Objects) -> float | None:
    """Seconds of each step's input that requests take, as many at once as were; None: unknown."""
    if one.requests_per_step is None or one.request_s is None:
        return None
    each = one.request_s + (one.body_s or 0.0)
    return one.requests_per_step * each / max(1.0, one.concurrency or 1.0)


def asked(one: Objects) -> str:
    """Say what a step asks for: "32.0 requests of 32 ms for each batch, 1.0 at once"."""
    each = (one.request_s or 0.0) + (one.body_s or 0.0)
    return (
        f"{one.requests_per_step:.1f} requests of {ms(each)} for each batch, "
        f"{one.concurrency or 1.0:.1f} at once"
    )

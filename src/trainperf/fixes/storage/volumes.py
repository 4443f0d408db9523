"""Data on volumes that are slower than the step, or in small files or objects of S3."""

from __future__ import annotations

import math

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.words import MB, MIB, measured_or, ms
from trainperf.model import Equivalence, Evidence, Objects, Reads, StorageWait
from trainperf.model.words import size

FROM_STORAGE = 0.10
"""With less of its bytes from storage than this share, a step was fed from the kernel's cache."""

REMOTE = ("efs", "lustre", "network", "nfs", "s3 mount")
"""Volumes where each open is a request over the network, whatever the cache holds."""

SMALL_FILE = 1 * MIB
"""Mean bytes of a file below which a disk waits for each file more than for its bytes: gp3
gives 125 MiB/s and answers in a millisecond, the time of 128 KiB; our choice."""

SMALL_REMOTE_FILE = 50 * MB
"""The same of files and objects that come over the network: SageMaker's advice is to pack those
into shards, and not to use FastFile mode."""

LEAST_OPENS = 2.0
"""Opens in each step: with less, a file serves many samples already."""

LEAST_FILES = 100

VARYING = 1.25
"""Cold reads in the run took up to so much longer than in the probe (measured under a limit
of requests a second: 1.15 times); a bound must not be too low for that."""

NEARLY_ALL = 0.9
"""Share of a step's bytes that come from storage, from which its waiting may be for them."""

REAL_PART = 0.2
"""Share of the waiting that the probe must explain; our choice."""

LEAST_SAMPLES = 3


def _stored_share(reads: Reads) -> float:
    """The share of a step's bytes that came from storage, 0 of a few; raises `NotMeasured`."""
    if reads.stored_per_step is None or not reads.bytes_per_step:
        raise NotMeasured("what a step reads from storage is not known")
    share = min(1.0, reads.stored_per_step / reads.bytes_per_step)
    return share if share >= FROM_STORAGE else 0.0


def _waiting(
    reads: Reads, seconds: float, evidence: Evidence, what: str
) -> tuple[str, Saving, StorageWait]:
    """What a step's `seconds` of waiting for storage, by the probe, save: more text, price, wait.

    Where nearly all bytes came from storage, and the probe explains a real part of it, that may be
    all the waiting in which nothing was computed: a volume with a burst that had been used up is
    slower in the run than in a probe after a pause (measured: four times).
    """
    most, text, idle = VARYING * seconds, "", 0.0
    try:
        use, real = evidence.phase("real"), evidence.times.real
        if use.cpu_cores is not None and use.samples >= LEAST_SAMPLES:
            idle = min(real - evidence.times.resident, real * (1 - use.cpu_cores))
    except NotMeasured:
        pass
    stored = reads.stored_per_step or 0.0
    from_there = stored >= NEARLY_ALL * (reads.bytes_per_step or 0.0) > 0
    longer = from_there and seconds >= REAL_PART * idle and idle > most
    if longer:
        most = idle
        text = (
            f" In the run {ms(most)} of a step passed without computing: reads may have been "
            "slower then than in the probe, which came after a pause."
        )
    wait = StorageWait(seconds, most if longer else seconds, what)
    return text, Saving(f"no waiting for {what}", most, of="input"), wait


def _readers(evidence: Evidence) -> int:
    """How many read at once at least: the workers of a PyTorch loader, else one."""
    return measured_or(1, lambda: max(1, evidence.torch.loader.workers))


def _place(reads: Reads) -> str:
    volume, kind = reads.volume, reads.volume.kind or reads.volume.filesystem
    kind = kind.upper() if kind in ("ebs", "efs", "nfs") else kind
    return f"{volume.mount or 'an unknown mount'} ({kind})"


def _many_opened(reads: Reads) -> bool:
    return (reads.opens_per_step or 0.0) >= LEAST_OPENS and reads.files >= LEAST_FILES


CLEARLY = 0.8
"""The step must need this much more than the volume gives: rates of cold reads vary."""

RAISE = """\
# which volume is it, and what was it given?
aws ec2 describe-volumes --filters Name=attachment.instance-id,Values=INSTANCE_ID
aws ec2 modify-volume --volume-id VOLUME_ID --throughput 500"""

COPY = """\
# once, before training: a local disk is empty after each stop of the instance
import shutil

shutil.copytree("{folder}", "{local}/data", dirs_exist_ok=True)"""


class StorageThroughput(Fix):
    """Give the data a volume that is as fast as the step reads.

    Why slow: The step would read more in a second than the volume gives when the data is not in
    memory. A gp3 volume has 125 MiB/s and 3,000 requests a second unless more was asked for; an
    instance has a limit of its own for all its EBS volumes together.
    Changes: The volume is given more throughput, or the data is copied to a local NVMe disk before
    training. The script stays as it is, but for a path.
    When not: When all data fits into memory and is read for many epochs: only the first is slow.
    When smaller data will do: compressed records need less of the volume.
    """

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the volume whose cold rate is furthest below what the step needs."""
        short = {
            cold / needed: (reads, cold, needed)
            for reads in evidence.reads
            if (cold := reads.best_cold_bytes_s)
            and (needed := reads.needed_bytes_s)
            # else opening them is what costs
            and not (_many_opened(reads) and (reads.mean_bytes or math.inf) <= SMALL_FILE)
        }
        if min(short, default=1.0) >= CLEARLY or not evidence.input_bound:
            return None
        reads, cold, needed = short[min(short)]
        stored, steps = reads.stored_per_step or 0.0, evidence.loop.epoch_steps or 0
        whole = max(reads.total_bytes, steps * (reads.bytes_per_step or 0.0))
        slower, waits = "", None
        saves: Saving | Unpriced = Unpriced("none: the files were read from memory meanwhile")
        if _stored_share(reads):
            alone = (reads.cold_bytes_s or cold) if _readers(evidence) == 1 else cold
            what = f"{size(stored)} to be read from {_place(reads)}"
            slower, saves, waits = _waiting(reads, stored / alone, evidence, what)
        elif whole <= evidence.machine.memory_limit:
            return None
        advice, snippet = _faster(reads, evidence)
        return Cause(
            title=f"The volume at {_place(reads)} is slower than the step reads",
            text=f"With an input that never waits, the step would read {size(needed)}/s. "
            f"{_place(reads)} gave {size(cold)}/s for {size(reads.probed_bytes)} of these files "
            f"that were not in memory.{slower}",
            saves=saves,
            advice=advice,
            snippet=snippet,
            waits=waits,
        )


def _faster(reads: Reads, evidence: Evidence) -> tuple[str, str]:
    """What to do, as advice and snippet: a local disk, if the data is not on it, or a setting."""
    folder = (reads.examples[0].rpartition("/")[0] if reads.examples else "") or "/data"
    volume, instance = reads.volume, evidence.machine.instance
    kind = None if instance is None else instance.type
    if kind is not None and kind.nvme_bytes and volume.kind != "nvme":
        # where Deep Learning AMIs mount the instance store
        copy = COPY.format(folder=folder, local="/opt/dlami/nvme")
        return f"Copy the data to the local NVMe disk that {kind.name} has.", copy
    if volume.kind == "ebs":
        advice = "Give the gp3 volume more throughput (125 to 1,000 MiB/s) and, for small reads, "
        advice += "more IOPS (3,000 to 16,000); the instance's own EBS limit still holds."
        return advice, RAISE
    copy = COPY.format(folder=folder, local="/local/disk")
    return "Move the data to a faster disk, or to one in the machine itself.", copy


PACKED = """\
# once, before training: tar files, each of about 150 MB
random.shuffle(samples)
for number, shard in enumerate(shards_of(samples)):
    with tarfile.open(f"train-{number:05}.tar", "w") as file:
        for path in shard:
            file.add(path)"""


class StorageSmallFiles(Fix):
    """Pack small files into shards of about 150 MB.

    Why slow: Each sample costs an open, a read and a close. On a network file system or a cold
    disk each waits for an answer, for a small file far longer than its bytes take; so does
    SageMaker's FastFile mode, where each is a request to S3.
    Changes: The files are written once into TFRecord or tar files of about 150 MB, which the loop
    reads from end to end. Samples are shuffled within a window and between shards.
    When not: When samples must be read in a truly random order, or the files are on a local disk
    and stay in memory: then opening costs microseconds.
    """

    equivalence = Equivalence.NUMERICS
    without_edit = "the data have to be packed anew, and their reader with them"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the volume whose files cost a step most to open and read."""
        costs = {reads: cost for reads in evidence.reads if (cost := _opening(reads, evidence))}
        if not costs:
            return None
        reads = max(costs, key=lambda reads: costs[reads])
        opens, real, workers = reads.opens_per_step, evidence.times.real, _readers(evidence)
        what = f"{opens:.0f} small files to be opened and read on {_place(reads)}"
        slower, saves, waits = _waiting(reads, costs[reads], evidence, what)
        many = f"more than {reads.files:,}" if reads.at_least else f"{reads.files:,}"
        by = f" by {workers} workers" if workers > 1 else ""
        return Cause(
            title=f"Each step opens {opens:.0f} small files",
            text=f"{many} files of {size(reads.mean_bytes or 0)} on average lie on "
            f"{_place(reads)}. A step of {ms(real)} opens {opens:.0f} of them{by}: to open, read "
            f"and close these takes {ms(costs[reads])}.{slower}",
            saves=saves,
            snippet=PACKED,
            waits=waits,
        )


def _opening(reads: Reads, evidence: Evidence) -> float | None:
    """Seconds of a step that files take to open and read, by the probe; None if too little."""
    opens, mean, remote = reads.opens_per_step, reads.mean_bytes, reads.volume.kind in REMOTE
    if opens is None or mean is None or not _many_opened(reads):
        return None
    if mean > (SMALL_REMOTE_FILE if remote else SMALL_FILE):
        return None
    try:
        share = _stored_share(reads)
    except NotMeasured:
        if not remote:
            raise
        share = 1.0
    cold, warm = reads.cold_file_s, reads.warm_file_s
    if (cold is None and warm is None) or not (share or remote):  # in memory: microseconds each
        return None
    file_s = share * (cold or warm or 0.0) + (1 - share) * (warm or cold or 0.0)
    workers, parallel = _readers(evidence), reads.cold_parallel_bytes_s
    seconds = opens * file_s / workers
    if workers > 1 and parallel:
        # What four readers got together, where that is less than these would get apart.
        seconds = max(seconds, share * opens * mean / parallel)
    return seconds


# ------------------------------------------------------------------------------ objects


def _requests_s(objects: Objects) -> float | None:
    """Seconds of each step's input that requests take, as many at once as were; None: unknown."""
    if objects.requests_per_step is None or objects.request_s is None:
        return None
    request_s = objects.request_s + (objects.body_s or 0.0)
    return objects.requests_per_step * request_s / max(1.0, objects.concurrency or 1.0)


MATTERS = 0.10
"""The share of the input from which requests are worth a change."""


class S3RequestLatency(Fix):
    """Read few large objects from S3, several at once, not many small ones in turn.

    Why slow: Each request waits some ten milliseconds for its first byte, whatever its size. A
    batch that asks for one object per sample, one after the other, waits that often. One request
    at a time carries 85 to 90 MB/s at best, small objects far less.
    Changes: The samples are packed into shards of about 150 MB that are read from start to end, or
    come through SageMaker's FastFile mode or mountpoint-s3, or several requests are under way at
    once. In shards their order is another.
    When not: Data that fits on the local disk and is read for several epochs: copy it once (File
    mode below 50 to 100 GB). Samples drawn at random from all of the data: FSx for Lustre.
    """

    equivalence = Equivalence.NUMERICS
    without_edit = "the objects have to be packed anew, and their reader with them"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find small objects whose requests are what the step waits for."""
        objects = max(
            evidence.objects, key=lambda objects: _requests_s(objects) or 0.0, default=None
        )
        seconds = None if objects is None else _requests_s(objects)
        mean = None if objects is None else objects.mean_object_bytes
        if objects is None or seconds is None or mean is None or mean >= SMALL_REMOTE_FILE:
            return None
        real, requests = evidence.times.real, objects.requests_per_step or 0.0
        if seconds < MATTERS * real:
            return None
        here = evidence.machine.instance.region if evidence.machine.instance else None
        far = ""
        if objects.region and here and objects.region != here and not objects.endpoint:
            far = f" They come from {objects.region} to {here}: copy them there once."
        address, width = f"s3://{objects.bucket}/{objects.prefix}", objects.concurrency or 1.0
        return Cause(
            title=f"Objects of {size(mean)} are read from S3 one by one",
            text=f"{address}: {requests:.1f} requests for each batch, {width:.1f} at once, take "
            f"{ms(min(seconds, real))} of a step of {ms(real)}.{far}",
            saves=Saving("the step if the requests cost nothing", seconds, of="input"),
            advice="Pack the objects into shards of about 150 MB, which one request at a time "
            "reads at 85 to 90 MB/s, or SageMaker's FastFile mode or mountpoint-s3 ahead of the "
            "step. Or ask for many at once.",
            snippet="from concurrent.futures import ThreadPoolExecutor\n\n"
            "pool = ThreadPoolExecutor(16)  # one boto3 client serves all threads\n"
            "samples = list(pool.map(read_one, keys_of_the_batch))",
            waits=StorageWait(seconds, seconds, f"{requests:.1f} requests to {address}"),
        )

"""Files that are read from volumes which are slower than the step, or each for one sample."""

from __future__ import annotations

import math

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.words import MIB, ms
from trainperf.model import Equivalence, Evidence, Reads, StorageWait, Volume
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

VARYING = 1.25
"""Cold reads in the run took up to so much longer than in the probe (measured under a limit
of requests a second: 1.15 times); a bound must not be too low for that."""

NEARLY_ALL = 0.9
"""Share of a step's bytes that come from storage, from which its waiting may be for them."""

REAL_PART = 0.2
"""Share of the waiting that the probe must explain; our choice."""

LEAST_SAMPLES = 3


def from_storage(reads: Reads) -> bool:
    """Whether a step's bytes came from storage, rather than from the kernel's cache.

    Raises `NotMeasured` where either is not known.
    """
    if reads.stored_per_step is None or not reads.bytes_per_step:
        raise NotMeasured("what a step reads from storage is not known")
    return reads.stored_per_step >= FROM_STORAGE * reads.bytes_per_step


def file_seconds(reads: Reads) -> tuple[float, float | None]:
    """Return the share of a step's bytes from storage, and mean seconds to open and read a file.

    Of a few bytes none is worth a word. Of a volume on the network what is not known comes from
    afar; of others that raises `NotMeasured`.
    """
    try:
        stored = (reads.stored_per_step or 0.0) / (reads.bytes_per_step or 1.0)
        share = min(1.0, stored) if from_storage(reads) else 0.0
    except NotMeasured:
        if reads.volume.kind not in REMOTE:
            raise
        share = 1.0
    cold, warm = reads.cold_file_s, reads.warm_file_s
    if cold is None or warm is None:
        return share, (warm if cold is None and not share else cold)
    return share, share * cold + (1 - share) * warm


def epoch_bytes(reads: Reads, evidence: Evidence) -> float:
    """Bytes that an epoch reads there: of the files seen, or of all its steps if that is more.

    Raises `NotMeasured` where there are more files than were seen, and an epoch's length is
    not known.
    """
    steps = evidence.loop.epoch_steps
    if steps and reads.bytes_per_step:
        return max(float(reads.total_bytes), steps * reads.bytes_per_step)
    if reads.at_least:
        raise NotMeasured("not all files were seen")
    return float(reads.total_bytes)


class Waiting:
    """What a step waits for storage: `seconds` by the probe, `most` in the run.

    Where nearly all bytes came from storage, and the probe explains a real part of it, that may be
    all the waiting in which nothing was computed: a volume with a burst that had been used up is
    slower in the run than in a probe after a pause (measured: four times).
    """

    def __init__(self, reads: Reads, seconds: float, evidence: Evidence) -> None:
        self.seconds, self.most = seconds, VARYING * seconds
        idle = _idle_s(evidence)
        stored = reads.stored_per_step or 0.0
        from_there = stored >= NEARLY_ALL * (reads.bytes_per_step or 0.0) > 0
        self.longer = from_there and seconds >= REAL_PART * idle and idle > self.most
        if self.longer:
            self.most = idle

    @property
    def text(self) -> str:
        """Say that the run's reads may have been slower than the probe's, after a blank."""
        if not self.longer:
            return ""
        return (
            f" In the run {ms(self.most)} of a step passed without computing: reads may have been "
            "slower then than in the probe, which came after a pause."
        )

    def on(self, what: str) -> StorageWait:
        """Say for the verdict how many seconds of a step go to storage, and for what."""
        return StorageWait(self.seconds, self.most if self.longer else self.seconds, what)


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


def folder(reads: Reads) -> str:
    """The folder of the files that were seen, to stand in a snippet."""
    return (reads.examples[0].rpartition("/")[0] if reads.examples else "") or "/data"


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


GP3 = 125 * MIB
"""Bytes per second of a gp3 volume, unless more was asked for (AWS: 125 MiB/s, 3,000 IOPS)."""

LIKE_GP3 = (0.80, 1.15)
"""A measured rate within these shares of `GP3` looks like that limit."""

CLEARLY = 0.8
"""The step must need this much more than the volume gives: rates of cold reads vary."""

RAISE = """\
# which volume is it, and what was it given?
aws ec2 describe-volumes --filters Name=attachment.instance-id,Values=INSTANCE_ID
aws ec2 modify-volume --volume-id VOLUME_ID --throughput {throughput}"""

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
        rates = {
            reads: (reads.best_cold_bytes_s, reads.needed_bytes_s)
            for reads in evidence.reads
            if reads.best_cold_bytes_s
            and reads.needed_bytes_s
            # else opening them is what costs
            and not (_many_opened(reads) and (reads.mean_bytes or math.inf) <= SMALL_FILE)
        }
        short = {reads: cold / needed for reads, (cold, needed) in rates.items()}
        reads = min(short, key=lambda reads: short[reads], default=None)
        if reads is None or short[reads] >= CLEARLY or not evidence.input_bound:
            return None
        cold, needed = rates[reads]
        saves: Saving | Unpriced
        stored, slower, waits = reads.stored_per_step or 0.0, "", None
        if from_storage(reads):
            alone = (reads.cold_bytes_s or cold) if readers(evidence) == 1 else cold
            waiting = Waiting(reads, stored / alone, evidence)
            slower = waiting.text
            waits = waiting.on(f"{size(stored)} to be read from {place(reads.volume)}")
            basis = "what a step reads from storage, at the cold rate, takes no time"
            saves = Saving(basis, waiting.most, of="input")
        elif epoch_bytes(reads, evidence) > evidence.machine.memory_limit:
            saves = Unpriced("none: while it was timed, the files were read from memory")
        else:
            return None
        advice, snippet = _faster(reads, needed, evidence)
        return Cause(
            title=f"The volume at {place(reads.volume)} is slower than the step reads",
            text=f"With an input that never waits, the step would read {rate(needed)}. "
            f"{place(reads.volume)} gave {rate(cold)} for {size(reads.probed_bytes)} of these "
            f"files that were not in memory.{_limits(reads.volume, cold)}{slower}",
            saves=saves,
            advice=advice,
            snippet=snippet,
            waits=waits,
        )


def _limits(volume: Volume, cold: float) -> str:
    text = ""
    if volume.kind == "ebs" and LIKE_GP3[0] * GP3 <= cold <= LIKE_GP3[1] * GP3:
        text = f" That is about the {rate(GP3)} of a gp3 volume that was given no more."
    if volume.limit_bytes_s is not None:
        text += f" At most {rate(volume.limit_bytes_s)} ({volume.limit_basis})."
    return text


def _faster(reads: Reads, needed: float, evidence: Evidence) -> tuple[str, str]:
    """What to do, as advice and snippet: a local disk, if the data is not on it, or a setting."""
    volume, instance = reads.volume, evidence.machine.instance
    kind = None if instance is None else instance.type
    if kind is not None and kind.nvme_bytes and volume.kind != "nvme":
        # where Deep Learning AMIs mount the instance store
        copy = COPY.format(folder=folder(reads), local="/opt/dlami/nvme")
        return f"Copy the data to the local NVMe disk that {kind.name} has.", copy
    if volume.kind == "ebs":
        most = min(1000, max(250, round(needed / MIB / 50 + 0.5) * 50))
        advice = "Give the gp3 volume more throughput (125 to 1,000 MiB/s) and, for small reads, "
        advice += "more IOPS (3,000 to 16,000); the instance's own EBS limit still holds."
        return advice, RAISE.format(throughput=most)
    copy = COPY.format(folder=folder(reads), local="/local/disk")
    return "Move the data to a faster disk, or to one in the machine itself.", copy


SMALL_REMOTE_FILE = 50e6
"""Mean bytes of a file below which SageMaker's advice is to pack files into shards, and not to
use FastFile mode: of those that come over the network."""


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
        reads = max(costs, key=lambda reads: costs[reads][0])
        seconds, file_s = costs[reads]
        waiting = Waiting(reads, seconds, evidence)
        many = f"more than {reads.files:,}" if reads.at_least else f"{reads.files:,}"
        workers = readers(evidence)
        opens, real = f"{reads.opens_per_step:.0f}", evidence.times.real
        by = f" by {workers} workers" if workers > 1 else ""
        return Cause(
            title=f"Each step opens {opens} small files",
            text=f"{many} files of {size(reads.mean_bytes or 0)} on average lie on "
            f"{place(reads.volume)}. A step of {ms(real)} opens {opens} of them{by}: to open, read "
            f"and close one takes {ms(file_s)}, and {ms(seconds)} in all.{waiting.text}",
            saves=Saving(
                "opening and reading the files of a step takes no time", waiting.most, of="input"
            ),
            snippet=PACKED,
            waits=waiting.on(f"{opens} small files to be opened and read on {place(reads.volume)}"),
        )


def _many_opened(reads: Reads) -> bool:
    return (reads.opens_per_step or 0.0) >= LEAST_OPENS and reads.files >= LEAST_FILES


def _opening(reads: Reads, evidence: Evidence) -> tuple[float, float] | None:
    """Seconds a step and a file take to open and read, by the probe; None if too little."""
    opens, mean, remote = reads.opens_per_step, reads.mean_bytes, reads.volume.kind in REMOTE
    if opens is None or not _many_opened(reads):
        return None
    if mean is None or mean > (SMALL_REMOTE_FILE if remote else SMALL_FILE):
        return None
    share, file_s = file_seconds(reads)
    if file_s is None or not (share or remote):  # in memory: microseconds each
        return None
    workers, parallel = readers(evidence), reads.cold_parallel_bytes_s
    seconds = opens * file_s / workers
    if workers > 1 and parallel:
        # What four readers got together, where that is less than these would get apart.
        seconds = max(seconds, share * opens * mean / parallel)
    return seconds, file_s

"""Files that are read from volumes which are slower than the step, or cold at first."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common._environment import EnvironmentFix
from trainperf.fixes.common.words import MIB, ms, times
from trainperf.model import Evidence, Reads, StorageWait, Volume
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

ROOM = 0.8
"""Share of the available memory that the kernel may well fill with files."""


def from_storage(reads: Reads) -> bool:
    """Whether a step's bytes came from storage, rather than from the kernel's cache.

    Raises `NotMeasured` where either is not known.
    """
    if reads.stored_per_step is None or not reads.bytes_per_step:
        raise NotMeasured("what a step reads from storage is not known")
    return reads.stored_per_step >= FROM_STORAGE * reads.bytes_per_step


def file_seconds(reads: Reads, remote: bool = False) -> tuple[float, float | None]:
    """Return the share of a step's bytes from storage, and mean seconds to open and read a file.

    Of a few bytes none is worth a word. What is not known comes from afar, where it is `remote`;
    else that raises `NotMeasured`.
    """
    try:
        stored = (reads.stored_per_step or 0.0) / (reads.bytes_per_step or 1.0)
        share = min(1.0, stored) if from_storage(reads) else 0.0
    except NotMeasured:
        if not remote and reads.volume.kind not in REMOTE:
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


class StorageThroughput(EnvironmentFix):
    """Give the data a volume that is as fast as the step reads.

    ## Why it is slow
    The step would read more in a second than the volume gives when the data is not in memory. A
    gp3 volume has 125 MiB/s and 3,000 requests a second unless more was asked for; an instance
    has a limit of its own for all its EBS volumes together.

    ## What changes
    The volume is given more throughput, or the data is copied to a local NVMe disk before
    training. The script stays as it is, but for a path.

    ## When not to
    When all data fits into memory and is read for many epochs: only the first is slow. When
    smaller data will do: compressed records need less of the volume.
    """

    category = "storage"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the volume whose cold rate is furthest below what the step needs."""
        rates = {
            reads: (reads.best_cold_bytes_s, reads.needed_bytes_s)
            for reads in evidence.reads
            if reads.best_cold_bytes_s and reads.needed_bytes_s and not _by_file(reads)
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


def _by_file(reads: Reads) -> bool:
    """Whether each step opens many files so small that opening them is what costs."""
    mean, opens = reads.mean_bytes, reads.opens_per_step
    if mean is None or opens is None:
        return False
    return mean <= SMALL_FILE and opens >= LEAST_OPENS and reads.files >= LEAST_FILES


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


SLOWER = 3.0
"""Cold reads at least so many times slower than warm ones: the first epoch shows it."""

LEAST_LOST_S = 30.0
"""A first epoch that loses less than this is not worth a word."""

READ_ALL = """\
# while the model is being built: read everything once, with eight readers
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

def read(path):
    with open(path, "rb") as file:
        while file.read(1 << 20):
            pass

reading = ThreadPoolExecutor(8).map(read, Path("{folder}").rglob("*.*"))"""


class StorageColdCache(EnvironmentFix):
    """Read the files into memory before the first epoch, or expect it to be slow.

    ## Why it is slow
    The first epoch reads every file from storage. Later ones find them in the kernel's cache, if
    all of them fit into memory, and are many times faster.

    ## What changes
    The files are read once by several readers while the script still starts, or copied to a local
    disk before. Only the first epoch gets shorter.

    ## When not to
    When the data does not fit into memory, or the first of many epochs does not matter.
    """

    category = "practice"  # a word on the first epoch, and nothing that a step loses

    def look(self, evidence: Evidence) -> Cause | None:
        """Find files that fit into memory and are read much slower the first time."""
        lost = {reads: _lost_s(reads, evidence) for reads in evidence.reads}
        reads = max(lost, key=lambda reads: lost[reads], default=None)
        if reads is None or lost[reads] < LEAST_LOST_S:
            return None
        cold, warm = reads.best_cold_bytes_s or 0.0, reads.warm_bytes_s or 0.0
        return Cause(
            title="The first epoch reads from storage what later ones have in memory",
            text=f"The {size(epoch_bytes(reads, evidence))} of an epoch on {place(reads.volume)} "
            f"fit into memory. Not there yet, they come at {rate(cold)}, {times(warm / cold)} "
            f"slower than from memory: the first epoch takes about {ms(lost[reads])} longer than "
            "the step needs. Later epochs do not.",
            saves=Unpriced("none: the first epoch alone is slower"),
            advice="Read the files once in the background while the script starts, or put them on "
            "a local disk first. Time later epochs, not the first, when you compare runs.",
            snippet=READ_ALL.replace("{folder}", folder(reads)),
        )


def _lost_s(reads: Reads, evidence: Evidence) -> float:
    """Seconds by which the first epoch is longer; 0 where it is not, or that is not known."""
    cold, warm, needed = reads.best_cold_bytes_s, reads.warm_bytes_s, reads.needed_bytes_s
    if cold is None or warm is None or needed is None or warm < SLOWER * cold:
        return 0.0
    total = epoch_bytes(reads, evidence)
    if total > ROOM * evidence.machine.memory_available:
        return 0.0
    return total / cold - total / min(needed, warm)

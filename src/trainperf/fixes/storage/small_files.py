"""Many small files, each opened for one sample: on a volume, or through a channel of SageMaker."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common._environment import EnvironmentFix
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.storage.volumes import (
    LEAST_FILES,
    LEAST_OPENS,
    REMOTE,
    SMALL_FILE,
    Waiting,
    file_seconds,
    place,
    readers,
)
from trainperf.model import Channel, Equivalence, Evidence, Reads
from trainperf.model.words import size

MANY_FILES = 1000
"""Files of a channel in FastFile mode from which its mode is the matter; our choice."""

SMALL_REMOTE_FILE = 50e6
"""Mean bytes of a file below which SageMaker's advice is to pack files into shards, and not to
use FastFile mode: of those that come over the network."""

SHARD = "about 150 MB"
"""The size of shards in SageMaker's advice on small files."""


def through(reads: Reads, channel: Channel) -> bool:
    """Whether files of a volume came by way of a channel."""
    inside = channel.path.rstrip("/") + "/"
    return any(path.startswith(inside) for path in reads.examples)


PACKED = """\
# once, before training: tar files, each of about 150 MB
random.shuffle(samples)
for number, shard in enumerate(shards_of(samples)):
    with tarfile.open(f"train-{number:05}.tar", "w") as file:
        for path in shard:
            file.add(path)"""


class StorageSmallFiles(Fix):
    """Pack small files into shards of about 150 MB.

    ## Why it is slow
    Each sample costs an open, a read and a close. On a network file system or a cold disk each
    waits for an answer, for a small file far longer than its bytes take. Metadata servers (EFS,
    FSx for Lustre) slow down with millions of files.

    ## What changes
    The files are written once into TFRecord or tar files of about 150 MB, which the loop reads
    from end to end. Samples are shuffled within a window and between shards.

    ## When not to
    When samples must be read in a truly random order, or the files are on a local disk and stay
    in memory: then opening costs microseconds.
    """

    category = "storage"
    equivalence = Equivalence.NUMERICS
    without_edit = "the data have to be packed anew, and their reader with them"
    framework = "any"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the volume whose files cost a step most to open and read."""
        fast = [channel for channel in evidence.channels if channel.mode == "FastFile"]
        costs = {
            reads: cost
            for reads in evidence.reads
            # else the channel's input mode is what is spoken of
            if not (reads.files >= MANY_FILES and any(through(reads, channel) for channel in fast))
            and (cost := _opening(reads, evidence))
        }
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
            advice=f"Pack the files into shards of {SHARD} (TFRecord, tar) and read these from "
            "end to end.",
            snippet=PACKED,
            waits=waiting.on(f"{opens} small files to be opened and read on {place(reads.volume)}"),
        )


def _opening(reads: Reads, evidence: Evidence) -> tuple[float, float] | None:
    """Seconds a step and a file take to open and read, by the probe; None if too little."""
    opens, mean, remote = reads.opens_per_step, reads.mean_bytes, reads.volume.kind in REMOTE
    if opens is None or opens < LEAST_OPENS or reads.files < LEAST_FILES:
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


LARGE = 100e9
"""Bytes of a channel above which File mode is the wrong one (the advice says 50 to 100 GB)."""


class SagemakerInputMode(EnvironmentFix):
    """Choose the SageMaker input mode that fits the size and the number of files.

    ## Why it is slow
    FastFile mode asks S3 for each file when it is opened: with many small files each step waits
    for that many answers. File mode copies everything before training begins: with hundreds of GB
    the GPUs are paid for and idle for that long.

    ## What changes
    The channel gets another `input_mode`, or the files are packed into shards of about 150 MB
    first.

    ## When not to
    Where files are read in random order for many epochs and do not fit on the disk: then FSx for
    Lustre serves them better than either.
    """

    category = "storage"
    without_edit = "it is set where the job is started"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a channel whose files do not fit its mode."""
        causes = [
            cause
            for channel in evidence.channels
            for reads in evidence.reads
            if through(reads, channel)
            and (cause := _fast_file(channel, reads, evidence) or _copied_first(channel, reads))
        ]
        return max(
            causes, key=lambda cause: cause.waits.seconds if cause.waits else 0.0, default=None
        )


def _input_mode(mode: str) -> str:
    return f'# SageMaker Python SDK 2\nTrainingInput(s3_uri, input_mode="{mode}")'


def _fast_file(channel: Channel, reads: Reads, evidence: Evidence) -> Cause | None:
    if channel.mode != "FastFile" or not evidence.input_bound:
        return None
    mean, opens = reads.mean_bytes or 0.0, reads.opens_per_step
    share, file_s = file_seconds(reads, remote=True)
    if mean > SMALL_REMOTE_FILE or reads.files < MANY_FILES:
        return None
    if opens is None or file_s is None or not share:
        return None
    waiting = Waiting(reads, opens * file_s / readers(evidence), evidence)
    if not worth(evidence, evidence.bound_if_input_saves(waiting.most)):
        return None  # what another channel copies first may be the matter
    fits = reads.total_bytes <= LARGE
    other = "File mode copies them once, before training. " if fits else ""
    return Cause(
        title=f"Channel {channel.name} reads small files in FastFile mode",
        text=f"{reads.files:,} files of {size(mean)} on average, {opens:.0f} opened in each "
        f"step, {ms(file_s)} for each: what is not in memory is a request to S3.",
        saves=Saving(
            "opening and reading the files of a step takes no time", waiting.most, of="input"
        ),
        advice=f"Pack them into shards of {SHARD}. {other}FSx for Lustre suits random reads.",
        snippet=_input_mode("File") if fits else "",
        waits=waiting.on(f"{opens:.0f} small files of channel {channel.name} from S3"),
    )


def _copied_first(channel: Channel, reads: Reads) -> Cause | None:
    copied = channel.mode == "File" and channel.source in ("", "S3")
    if not copied or reads.total_bytes <= LARGE:
        return None
    small = (reads.mean_bytes or 0.0) < SMALL_REMOTE_FILE
    packed = f", once they are packed into shards of {SHARD}" if small else ""
    return Cause(
        title=f"Channel {channel.name} is copied before training: File mode",
        text=f"{reads.files:,} files, {size(reads.total_bytes)} in all, are copied from S3 before "
        "the script starts. File mode suits up to 50 to 100 GB.",
        saves=Unpriced("none: the copying ends before the first step"),
        advice=f"Use FastFile mode, which starts at once{packed}; FSx for Lustre for random "
        "or repeated reads.",
        snippet=_input_mode("FastFile"),
    )

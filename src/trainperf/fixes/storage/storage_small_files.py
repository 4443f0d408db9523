"""Many small files, each opened for one sample."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.fixes.storage._storage import (
    LEAST_FILES,
    LEAST_OPENS,
    MANY,
    NEARLY_ALL,
    REMOTE,
    SHARD,
    SMALL_FILE,
    at_most,
    file_seconds,
    place,
    readers,
    slower_said,
    through,
    waits,
)
from trainperf.model import Equivalence, Evidence, Finding, Reads
from trainperf.model.words import size

SMALL = 50e6
"""Mean bytes of a file below which SageMaker's advice is to pack files into shards: of those
that come over the network. On a disk, `SMALL_FILE` counts."""

TENSORFLOW = """\
# once, before training: write shards, each of {shard}
with tf.io.TFRecordWriter("train-00000.tfrecord") as writer:
    for path, label in samples:
        features = {{"image": bytes_feature(open(path, "rb").read()), "label": int_feature(label)}}
        example = tf.train.Example(features=tf.train.Features(feature=features))
        writer.write(example.SerializeToString())

dataset = tf.data.TFRecordDataset(shards, num_parallel_reads=4)"""

TORCH = """\
# once, before training: tar files, each of {shard}
random.shuffle(samples)
for number, shard in enumerate(shards_of(samples)):
    with tarfile.open(f"train-{{number:05}}.tar", "w") as file:
        for path in shard:
            file.add(path)

# pip install webdataset
dataset = wds.WebDataset(urls, shardshuffle=100).shuffle(1000).decode("torchrgb")"""


class PackSmallFiles(Fix):
    """Pack small files into shards of about 150 MB.

    ## Why it is slow
    Each sample costs an open, a read and a close. On a network file system or a cold disk
    each of them waits for an answer, and for a small file that is far longer than its bytes
    take. Metadata servers (EFS, FSx for Lustre) slow down with millions of files.

    ## What changes
    The files are written into TFRecord or tar files of about 150 MB once, which the loop
    then reads from end to end. Samples are shuffled within a window and between shards.

    ## When not to
    - When samples must be read in a truly random order.
    - When the files are on a local disk and stay in memory: then opening costs microseconds.
    """

    category = "storage"
    equivalence = Equivalence.NUMERICS
    without_edit = "the data have to be packed anew, and their reader with them"
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find the volume whose files cost a step most to open and read."""
        if not evidence.input_bound:
            return None
        costs = {
            one: cost
            for one in evidence.reads
            if not _of_a_channel(one, evidence) and (cost := _cost(one, evidence))
        }
        if not costs:
            return None
        one = max(costs, key=lambda one: costs[one][0])
        seconds, each = costs[one]
        most = at_most(one, seconds, evidence)
        bound = evidence.bound_if_input_saves(most)
        if not worth(evidence, bound):
            return None
        snippet = TORCH if evidence.framework.name == "torch" else TENSORFLOW
        many = f"more than {one.files:,}" if one.at_least else f"{one.files:,}"
        at_once = readers(evidence)
        by = f" by {at_once} workers" if at_once > 1 else ""
        return self.finding(
            title=f"Each step opens {one.opens_per_step:.0f} small files",
            text=f"{many} files of {size(one.mean_bytes or 0)} on average lie on "
            f"{place(one.volume)}. A step opens {one.opens_per_step:.0f} of them{by}; to open, "
            f"read and close one takes {ms(each)}{_apart(one)}{_of_a_step(seconds, evidence)}."
            f"{slower_said(most, seconds)}",
            bound=bound,
            bound_basis="opening and reading the files of a step takes no time",
            advice=f"Pack the files into shards of {SHARD} (TFRecord, tar) and read these from "
            "end to end.",
            snippet=snippet.format(shard=SHARD),
            data=waits(
                seconds,
                most,
                f"{one.opens_per_step:.0f} small files to be opened and read on "
                f"{place(one.volume)}",
            ),
        )


def _apart(one: Reads) -> str:
    """Say what a file takes from storage and from memory, where a step reads from both."""
    share, _ = file_seconds(one)
    if not 0 < share < NEARLY_ALL or one.warm_file_s is None or one.cold_file_s is None:
        return ""
    return (
        f" on average ({ms(one.cold_file_s)} from storage, as {percent(share)} of the bytes came, "
        f"{ms(one.warm_file_s)} from memory)"
    )


def _of_a_step(seconds: float, evidence: Evidence) -> str:
    """Set what the files take against the step, which several readers may make shorter."""
    real = evidence.times.real
    if seconds <= real:
        return f", {ms(seconds)} of a step of {ms(real)}"
    return f": one after the other they would take {ms(seconds)}, and a step takes {ms(real)}"


def _of_a_channel(one: Reads, evidence: Evidence) -> bool:
    """Whether the channel's input mode is what is spoken of."""
    fast = [channel for channel in evidence.channels if channel.mode == "FastFile"]
    return one.files >= MANY and any(through(one, channel) for channel in fast)


def _cost(one: Reads, evidence: Evidence) -> tuple[float, float] | None:
    """Seconds a step and a file take to open and read, by the probe; None if too little."""
    opens, mean = one.opens_per_step, one.mean_bytes
    if opens is None or opens < LEAST_OPENS or one.files < LEAST_FILES:
        return None
    if mean is None or mean > (SMALL if one.volume.kind in REMOTE else SMALL_FILE):
        return None
    share, each = file_seconds(one)
    if each is None or not (share or one.volume.kind in REMOTE):  # in memory: microseconds each
        return None
    seconds, parallel = opens * each / readers(evidence), one.cold_parallel_bytes_s
    if readers(evidence) > 1 and parallel:
        # What four readers got together, where that is less than these would get apart.
        seconds = max(seconds, share * opens * mean / parallel)
    return seconds, each

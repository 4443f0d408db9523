"""An input mode of SageMaker that does not fit the files of its channel."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.storage._storage import (
    MANY,
    SHARD,
    at_most,
    file_seconds,
    readers,
    through,
    waits,
)
from trainperf.model import Channel, Equivalence, Evidence, Finding, Reads
from trainperf.model.words import size

SMALL = 50e6
"""Mean bytes of a file below which FastFile mode is the wrong one (SageMaker's advice)."""

LARGE = 100e9
"""Bytes of a channel above which File mode is (the advice says 50 to 100 GB)."""


SNIPPET = """\
# SageMaker Python SDK 2
TrainingInput(s3_uri, input_mode="{mode}")"""


class FitInputMode(Fix):
    """Choose the SageMaker input mode that fits the size and the number of files.

    ## Why it is slow
    FastFile mode asks S3 for each file when it is opened: with many small files each step
    waits for that many answers. File mode copies everything before training begins: with
    hundreds of GB the GPUs are paid for and idle for that long.

    ## What changes
    The channel gets another `input_mode`, or the files are packed into shards of about
    150 MB first. Training itself stays as it is.

    ## When not to
    Where files are read in random order for many epochs and do not fit on the disk: then
    FSx for Lustre serves them better than either.
    """

    category = "storage"
    equivalence = Equivalence.ENVIRONMENT
    without_edit = "it is set where the job is started"
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a channel whose files do not fit its mode."""
        for channel in evidence.channels:
            for one in evidence.reads:
                if not through(one, channel):
                    continue
                if channel.mode == "FastFile" and evidence.input_bound:
                    found = self._small(channel, one, evidence)
                elif channel.mode == "File" and channel.source in ("", "S3"):
                    found = self._large(channel, one)
                else:
                    found = None
                if found is not None:
                    return found
        return None

    def _small(self, channel: Channel, one: Reads, evidence: Evidence) -> Finding | None:
        mean, opens = one.mean_bytes or 0.0, one.opens_per_step
        share, each = file_seconds(one, remote=True)
        if mean > SMALL or one.files < MANY or opens is None or each is None or not share:
            return None
        seconds = opens * each / readers(evidence)
        most = at_most(one, seconds, evidence)
        bound = evidence.bound_if_input_saves(most)
        if not worth(evidence, bound):
            return None
        fits = one.total_bytes <= LARGE
        other = "File mode copies them once, before training. " if fits else ""
        return self.finding(
            title=f"Channel {channel.name} reads small files in FastFile mode",
            text=f"{one.files:,} files of {size(mean)} on average, {opens:.0f} opened in each "
            f"step, {ms(each)} for each: what is not in memory is a request to S3.",
            bound=bound,
            bound_basis="opening and reading the files of a step takes no time",
            advice=f"Pack them into shards of {SHARD}. {other}FSx for Lustre suits random reads.",
            snippet=SNIPPET.format(mode="File") if fits else "",
            data=waits(seconds, most, f"{opens:.0f} small files of channel {channel.name} from S3"),
        )

    def _large(self, channel: Channel, one: Reads) -> Finding | None:
        if one.total_bytes <= LARGE:
            return None
        mean = one.mean_bytes or 0.0
        packed = "" if mean >= SMALL else f", once they are packed into shards of {SHARD}"
        return self.finding(
            title=f"Channel {channel.name} is copied before training: File mode",
            text=f"{one.files:,} files, {size(one.total_bytes)} in all, are copied from S3 before "
            "the script starts. File mode suits up to 50 to 100 GB.",
            bound=None,
            bound_basis="none: the copying ends before the first step",
            advice=f"Use FastFile mode, which starts at once{packed}; FSx for Lustre for random "
            "or repeated reads.",
            snippet=SNIPPET.format(mode="FastFile"),
        )

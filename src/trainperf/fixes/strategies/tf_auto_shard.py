"""Files that cannot be shared out evenly among the workers."""

from __future__ import annotations

import math

from trainperf.fixes import Fix
from trainperf.fixes.common.words import percent, worth
from trainperf.model import Equivalence, Evidence, Finding, Strategy

BY_FILE = ("AUTO", "FILE")
"""Policies that share out whole files, where the dataset reads files."""

SNIPPET = """\
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
dataset = dataset.with_options(options)
"""


class ShardByData(Fix):
    """Share out samples among the workers instead of files: `AutoShardPolicy.DATA`.

    ## Why it is slow
    A dataset that reads files is shared out by whole files. Where there are few, some
    workers get more files than others, or none at all: an epoch lasts as long as the
    worker with most, and the others wait or compute on nothing.

    ## What changes
    With `AutoShardPolicy.DATA` each of n workers takes every n-th sample. All have the
    same number; which worker computes which sample changes.

    ## When not to
    - Every worker then reads all files and throws away what is not its own. Where
      reading is what takes long, write the data into more files instead: a multiple of
      the number of workers.
    - When the dataset is sharded by hand (`shard`, an `InputContext`).
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    between_epochs = True
    without_edit = "whether to shard by samples or to write more files takes a decision"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find files shared out among workers, of which some get clearly more than others."""
        found = evidence.strategy
        if found is None or found.workers < 2 or not found.files:
            return None
        if found.auto_shard not in BY_FILE:
            return None
        bound = math.ceil(found.files / found.workers) * found.workers / found.files
        if not worth(evidence, bound):
            return None
        site = found.dataset_where
        return self.finding(
            title=f"{found.files} files are too few for {found.workers} workers"
            if found.files > 1
            else f"One file is too little for {found.workers} workers",
            text=_text(found),
            bound=bound,
            bound_basis="whole epochs, if the files are equally long and reading is not what "
            "the workers wait for",
            where=(site,) if site else (),
            advice="Set AutoShardPolicy.DATA, or write the data into more files.",
            snippet=SNIPPET,
        )


def _text(found: Strategy) -> str:
    files, workers = found.files or 0, found.workers
    most = math.ceil(files / workers)
    text = (
        f"The {found.cls} shares out whole files (AutoShardPolicy.{found.auto_shard}), and there "
        f"are {files} for {workers} workers"
        if files > 1
        else f"The {found.cls} shares out whole files (AutoShardPolicy.{found.auto_shard}), and "
        f"there is one for {workers} workers"
    )
    if files < workers:
        left = workers - files
        return f"{text}: {left} of them get{'s' if left == 1 else ''} none."
    idle = 1 - files / workers / most
    return f"{text}: some get {most}, others fewer, and {percent(idle)} of an epoch is waiting."

"""Windows of a time series that are gathered one by one."""

from __future__ import annotations

import ast

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import (
    is_dear,
    opening,
    seconds_of,
    sites,
    suitable,
    takes,
    upper,
)
from trainperf.fixes.tf_data._source import put_in
from trainperf.model import Evidence, Finding, Stage
from trainperf.rewrite import Script
from trainperf.source.arguments import keyword, starred

FEWEST = 16
"""Windows of a batch below which there is little to put together."""

UTILITY = "timeseries_dataset_from_array"
_NAMES = (f"keras.utils.{UTILITY}", f"keras.preprocessing.{UTILITY}")

_PLACES = ("data", "targets", "sequence_length", "sequence_stride", "sampling_rate", "batch_size")
_DATA = ("data", "targets", "shuffle", "seed", "start_index", "end_index")
"""Parameters of Keras's by their places, and those that the form of a batch does not hang on."""

# `gather` leaves the length of a window open, as Keras does: specs of both are the same
BY_BATCH = '''\
def batches_of_windows(
    data,
    targets,
    sequence_length,
    sequence_stride=1,
    sampling_rate=1,
    batch_size=128,
    shuffle=False,
    seed=None,
    start_index=None,
    end_index=None,
):
    """Do as Keras's `timeseries_dataset_from_array`, but gather all windows of a batch at once."""
    arrays = [each[start_index:end_index] for each in (data, targets) if each is not None]
    count = len(arrays[0]) - (sequence_length - 1) * sampling_rate
    if targets is not None:
        count = min(count, len(targets))
    positions = np.arange(0, count, sequence_stride)
    if shuffle:
        seed = np.random.randint(1e6) if seed is None else seed
        np.random.RandomState(seed).shuffle(positions)
    starts = tf.data.Dataset.from_tensor_slices(positions)
    if shuffle:
        starts = starts.shuffle(8 * batch_size, seed=seed)

    def gather(starts, data, targets=None):
        first = tf.range(starts[0], starts[0] + sequence_length * sampling_rate, sampling_rate)
        windows = tf.gather(data, starts[:, None] - starts[0] + first)
        return windows if targets is None else (windows, tf.gather(targets, starts))

    arrays = [tf.data.Dataset.from_tensors(each).repeat() for each in arrays]
    batches = tf.data.Dataset.zip((starts.batch(batch_size), *arrays))
    return batches.map(gather, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
'''


class TfWindows(Fix):
    """Gather the windows of a time series batch by batch.

    Why slow: Keras's `timeseries_dataset_from_array` calls two small functions for every window,
    two more for its target: 1,024 calls for a batch of 256, which take longer than copying the
    numbers.
    Changes: A function in the script takes the same arguments: it batches the start positions and
    gathers all windows of a batch at once. Batches, their order (by the same random numbers),
    shapes and types stay the same. Calls in the same file that make batches of the same form go
    along.
    When not: When windows are so large (thousands of steps, pictures) that copying them is all the
    work. When memory is short: whole batches are prefetched, not single windows.
    """

    usual = 1.4

    def look(self, evidence: Evidence) -> Cause | None:
        """Find windows that Keras gathers one by one into batches."""
        found = suitable(evidence, lambda stage: stage.op == UTILITY and _windows(stage) >= FEWEST)
        if not found:
            return None
        return Cause(
            title="Windows of a time series are gathered one by one",
            text=f"{opening(found[0])} gathers {_windows(found[0])} windows a batch one by one"
            f"{takes(evidence, found)}.",
            saves=Saving(
                upper(evidence, "gathering windows costs nothing"),
                lambda: seconds_of(found),
                of="input",
            ),
            where=sites(found),
            snippet="starts = tf.data.Dataset.range(count).batch(batch_size)\n"
            "steps = tf.range(0, sequence_length * sampling_rate, sampling_rate, tf.int64)\n"
            "dataset = starts.map(\n"
            "    lambda at: (tf.gather(data, at[:, None] + steps), tf.gather(targets, at)),\n"
            "    num_parallel_calls=tf.data.AUTOTUNE,\n"
            ").prefetch(tf.data.AUTOTUNE)",
            sure=is_dear(evidence, found[0]),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Call a function that gathers whole batches, in place of Keras's, as do calls like these.

        The new function gives the same batches in the same order, shuffled by the same numbers.
        Whatever Keras takes it puts into one tensor itself, so all data is in memory already.
        """
        for file in dict.fromkeys(site.file for site in finding.where):
            own = {script.call(site): site for site in finding.where if site.file == file}
            near, forms = next(iter(own.values())), [_form(call) for call in own]
            for call in script.source(file).module.calls(*_NAMES):
                if call not in own and not starred(call) and _form(call) in forms:
                    own[call] = script.site_of(near, call)
            name = put_in(script, file, BY_BATCH)
            for call, site in own.items():
                script.replace_node(file, call.func, name)
                if keyword(call, "format") is not None:
                    script.remove_keyword(site, "format")


def _windows(stage: Stage) -> int:
    """How many windows the utility puts in a batch; 0 where it makes single ones."""
    size = stage.arguments.get("batch_size")
    return size if isinstance(size, int) else 0


def _form(call: ast.Call) -> dict[str | None, str]:
    """What the batches of a call are like: those of a validation set may be the same."""
    given = {passed.arg: passed.value for passed in call.keywords}
    given |= dict(zip(_PLACES, call.args, strict=False))
    return {name: ast.dump(node) for name, node in given.items() if name not in _DATA}

"""Windows of a time series that are gathered one by one."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from trainperf.errors import CannotRewrite
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
from trainperf.model import Equivalence, Evidence, Finding, Site, Stage
from trainperf.rewrite import Script
from trainperf.source.arguments import starred
from trainperf.source.module import Module

FEWEST = 16
"""Windows of a batch below which there is little to put together."""

UTILITY = "timeseries_dataset_from_array"
_NAMES = (f"keras.utils.{UTILITY}", f"keras.preprocessing.{UTILITY}")

_BY_PLACE = (
    "data", "targets", "sequence_length", "sequence_stride", "sampling_rate", "batch_size",
)  # fmt: skip
"""Parameters of Keras's that the new function has at the same places, in all its forms."""

_ORDER = ("shuffle", "seed")
_BY_NAME = (*_ORDER, "start_index", "end_index", "format")

# `gather` leaves the length of a window open, as Keras does: specs of both are the same
BY_BATCH = '''\
def {name}(
    data,
    targets,
    sequence_length,
    sequence_stride=1,
    sampling_rate=1,
    batch_size=128,{order}
    start_index=None,
    end_index=None,
):
    """Do as Keras's `timeseries_dataset_from_array`, but gather all windows of a batch at once."""
    arrays = [each[start_index:end_index] for each in (data, targets) if each is not None]
    count = len(arrays[0]) - (sequence_length - 1) * sampling_rate
    if targets is not None:
        count = min(count, len(targets))
{starts}

    def gather(starts, data, targets=None):
        first = {tf}.range(starts[0], starts[0] + sequence_length * sampling_rate, sampling_rate)
        windows = {tf}.gather(data, starts[:, None] - starts[0] + first)
        return windows if targets is None else (windows, {tf}.gather(targets, starts))

    arrays = [{tf}.data.Dataset.from_tensors(each).repeat() for each in arrays]
    batches = {tf}.data.Dataset.zip((starts.batch(batch_size), *arrays))
    return batches.map(gather, num_parallel_calls={tf}.data.AUTOTUNE).prefetch({tf}.data.AUTOTUNE)
'''
IN_ORDER = "    starts = {tf}.data.Dataset.range(0, count, sequence_stride)"
SHUFFLED = """\
    positions = {np}.arange(0, count, sequence_stride)
    if shuffle:
        seed = {np}.random.randint(1e6) if seed is None else seed
        {np}.random.RandomState(seed).shuffle(positions)
    starts = {tf}.data.Dataset.from_tensor_slices(positions)
    if shuffle:
        starts = starts.shuffle(8 * batch_size, seed=seed)"""


class TfWindows(Fix):
    """Gather the windows of a time series batch by batch.

    ## Why it is slow
    Keras's `timeseries_dataset_from_array` calls two small functions for every window, two more
    for its target, and copies the window once more into its batch: 1,024 calls for a batch
    of 256. They often take longer than copying the numbers.

    ## What changes
    A function in the script takes the same arguments: it batches the start positions and gathers
    all windows of a batch at once, in parallel for several batches, and prefetches them.
    Batches, their order (shuffled or not, by the same random numbers), shapes and types stay the
    same. Calls in the same file that make batches of the same form go along.

    ## When not to
    When windows are so large (thousands of steps, pictures) that copying them is all the work.
    When memory is short: whole batches are prefetched, not single windows.
    """

    category = "input"
    usual = 1.4
    equivalence = Equivalence.EXACT

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
            advice="Batch the start positions of the windows, and gather a batch at once.",
            snippet="starts = tf.data.Dataset.range(count).batch(batch_size)\n"
            "steps = tf.range(0, sequence_length * sampling_rate, sampling_rate, tf.int64)\n"
            "dataset = starts.map(\n"
            "    lambda at: (tf.gather(data, at[:, None] + steps), tf.gather(targets, at)),\n"
            "    num_parallel_calls=tf.data.AUTOTUNE,\n"
            ").prefetch(tf.data.AUTOTUNE)",
            sure=is_dear(evidence, found[0]),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Call a function that gathers whole batches, in place of Keras's."""
        gather_by_batch(script, finding.where)


def _windows(stage: Stage) -> int:
    """How many windows the utility puts in a batch; 0 where it makes single ones."""
    size = stage.arguments.get("batch_size")
    return size if isinstance(size, int) else 0


def gather_by_batch(script: Script, places: Sequence[Site]) -> None:
    """Have the calls of Keras's utility at some places, and those like them, gather whole batches.

    The new function gives the same batches in the same order, shuffled by the same numbers.
    Whatever Keras takes it puts into one tensor itself, so all data is in memory already. Raises
    `CannotRewrite` where arguments are not written out, or where the call makes no batches.
    """
    for file in dict.fromkeys(site.file for site in places):
        module = script.source(file).module
        own = {script.call(site): site for site in places if site.file == file}
        for call in own:
            if why := _why_not(module, call):
                raise CannotRewrite(why)
        near = next(iter(own.values()))
        forms = [_form(call) for call in own]
        for call in module.calls(*_NAMES):
            if call not in own and not _why_not(module, call) and _form(call) in forms:
                own[call] = script.site_of(near, call)
        name = script.free_name(file, "batches_of_windows", "window_batches")
        ordered = any(argument in _given(call) for call in own for argument in _ORDER)
        script.insert_function(file, _function(script, file, name, ordered))
        for call, site in own.items():
            script.replace_node(file, call.func, name)
            if "format" in _given(call):
                script.remove_keyword(site, "format")


def _function(script: Script, file: str, name: str, ordered: bool) -> str:
    """The source of the new function; what shuffles is in it where a call speaks of an order."""
    tf = script.module_name(file, "tensorflow")
    if not ordered:
        return BY_BATCH.format(name=name, tf=tf, order="", starts=IN_ORDER.format(tf=tf))
    starts = SHUFFLED.format(tf=tf, np=script.module_name(file, "numpy"))
    order = "\n    shuffle=False,\n    seed=None,"
    return BY_BATCH.format(name=name, tf=tf, order=order, starts=starts)


def _why_not(module: Module, call: ast.Call) -> str:
    """Why the new function cannot take the place of a call; '' if it can."""
    given = _given(call)
    if module.name(call.func) not in _NAMES:
        return "it is not seen that the function called is Keras's"
    if starred(call) or given.keys() - {*_BY_PLACE, *_BY_NAME}:
        return "the arguments of the call are not written out by their names"
    if "format" in given and module.constant(given["format"]) != "tf":
        return "the call may give a dataset of Grain"
    if "batch_size" in given and module.constant(given["batch_size"]) is None:
        return "the call makes single windows, no batches"
    return ""


def _form(call: ast.Call) -> dict[str, str]:
    """What the batches of a call are like: those of a validation set may be the same."""
    return {name: ast.dump(node) for name, node in _given(call).items() if name in _BY_PLACE[2:]}


def _given(call: ast.Call) -> dict[str, ast.expr]:
    """What a call gives, by the names of the parameters; what it gives beyond those by place."""
    names = (*_BY_PLACE, *(f"argument {place}" for place in range(len(call.args))))
    named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    return dict(zip(names, call.args, strict=False)) | named

"""Windows of a time series gathered batch by batch, in place of Keras's one by one."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.source.arguments import starred
from trainperf.source.module import Module

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

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


def gather_by_batch(script: Script, sites: Sequence[Site]) -> None:
    """Have the calls of Keras's utility at `sites`, and those like them, gather whole batches.

    The new function gives the same batches in the same order, shuffled by the same numbers.
    Whatever Keras takes it puts into one tensor itself, so all data is in memory already. Raises
    `CannotRewrite` where arguments are not written out, or where the call makes no batches.
    """
    for file in dict.fromkeys(site.file for site in sites):
        module = script.source(file).module
        own = [(site, script.call(site)) for site in sites if site.file == file]
        for _, call in own:
            _check(module, call)
        near, known = own[0][0], [call for _, call in own]
        like = [call for call in module.calls(*_NAMES) if call not in known]
        like = [call for call in like if any(_is_like(module, call, one) for one in known)]
        calls = [*own, *((script.site_of(near, call), call) for call in like)]
        name = script.free_name(file, "batches_of_windows", "window_batches")
        ordered = any(one in _given(call) for _, call in calls for one in _ORDER)
        script.insert_function(file, _function(script, file, name, ordered))
        for site, call in calls:
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


def _check(module: Module, call: ast.Call) -> None:
    """Refuse a call that the new function cannot take the place of."""
    if module.name(call.func) not in _NAMES:
        raise CannotRewrite("it is not seen that the function called is Keras's")
    if starred(call) or len(call.args) > len(_BY_PLACE):
        raise CannotRewrite("the arguments of the call are not written out by their names")
    given = _given(call)
    unknown = given.keys() - {*_BY_PLACE, *_BY_NAME}
    if unknown:
        raise CannotRewrite(f"the call gives {min(unknown)}")
    if "format" in given and module.constant(given["format"]) != "tf":
        raise CannotRewrite("the call may give a dataset of Grain")
    if "batch_size" in given and module.constant(given["batch_size"]) is None:
        raise CannotRewrite("the call makes single windows, no batches")


def _is_like(module: Module, call: ast.Call, other: ast.Call) -> bool:
    """Whether a call makes batches of the same form as another: a validation set's, say."""
    try:
        _check(module, call)
    except CannotRewrite:
        return False
    forms = [
        {name: ast.dump(value) for name, value in _given(each).items() if name in _BY_PLACE[2:]}
        for each in (call, other)
    ]
    return forms[0] == forms[1]


def _given(call: ast.Call) -> dict[str, ast.expr]:
    """What a call gives, by the names of the parameters."""
    named = {each.arg: each.value for each in call.keywords if each.arg is not None}
    return dict(zip(_BY_PLACE, call.args, strict=False)) | named

"""The cases of `tf_cache`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import SITE, machine, stage
from fixes.cases.tf_data._input_cases import LOAD, chain, fed, starved
from fixes.cases.tf_data.examples.caches import GENERATORS, SPLIT
from rewriting import Example
from trainperf.fixes.common.words import GIB
from trainperf.model import BetweenEpochs, DrawnFrom, Loop

_READS = ("DecodeJpeg", "RandomUniform", "ReadFile", "ResizeBilinear")

_DRAWN = DrawnFrom(20, 600_000)

_FITS: dict[str, Any] = {
    "function": LOAD,
    "elements_per_step": 32.0,
    "element_bytes": 600_000,
    "cardinality": 10_000,
}

silent = [
    fed(*chain(stage("from_tensor_slices", 0.0), stage("map", 0.07, **_FITS))),
    # cached already
    starved(*chain(stage("map", 0.09, **_FITS), stage("cache", 0.0), stage("batch", 0.01))),
    # one epoch only
    starved(
        *chain(stage("map", 0.09, **_FITS)),
        loop=Loop("fit", where=SITE, batch_size=32, epochs=1, epoch_steps=300),
    ),
    # too large
    starved(*chain(stage("map", 0.09, **_FITS)), machine=machine(available=8 * GIB)),
    # size not known
    starved(
        *chain(stage("map", 0.09, elements_per_step=32.0, cardinality=10_000)),
    ),
    # random work, Python's work, a generator, an endless dataset
    starved(*chain(stage("map", 0.09, stateful_random=True, **_FITS))),
    starved(*chain(stage("map", 0.09, python=True, **_FITS))),
    starved(*chain(stage("from_generator", 0.09, **_FITS), stage("batch", 0.01, **_FITS))),
    starved(*chain(stage("repeat", 0.0), stage("map", 0.09, **_FITS))),
    # the work that costs comes after the random stage
    starved(
        *chain(
            stage("from_tensor_slices", 0.001, **_FITS),
            stage("map", 0.04, stateful_random=True),
            stage("map", 0.05, **_FITS),
        )
    ),
    starved(stage("map", None, **_FITS)),
    # it may do nothing but draw
    starved(*chain(stage("map", 0.09, stateful_random=True, ops=("Mul",), **_FITS))),
    # random work that reads: what it works on when it draws is not known, or too large
    starved(
        *chain(stage("map", 0.09, stateful_random=True, ops=_READS, **_FITS)),
    ),
    starved(
        *chain(
            stage("map", 0.09, stateful_random=True, ops=_READS, drawn_from=_DRAWN, **_FITS),
        ),
        machine=machine(available=8 * GIB),
    ),
    # a prefetch that comes out dearest makes nothing itself, and belongs behind a cache
    starved(*chain(stage("map", 0.001, **_FITS), stage("prefetch", 0.09, **_FITS))),
]

fires = [
    # it reads, decodes and augments in one function
    starved(
        *chain(
            stage(
                "map",
                0.09,
                stateful_random=True,
                ops=_READS,
                drawn_from=_DRAWN,
                **{**_FITS, "element_bytes": 6_000_000},  # it makes more of it than is kept
            ),
        ),
    ),
    # a disk has room for what memory has not
    starved(
        *chain(stage("map", 0.09, **_FITS)),
        machine=machine(available=8 * GIB, disk_free=100 * GIB),
    ),
    starved(*chain(stage("from_tensor_slices", 0.0), stage("map", 0.09, **_FITS))),
    # ahead of augmentation and batching
    starved(
        *chain(
            stage("map", 0.06, **_FITS),
            stage("shuffle", 0.001, arguments={"buffer_size": 1000}),
            stage("map", 0.03, stateful_random=True),
            stage("batch", 0.009),
        )
    ),
    # shuffled file names
    starved(
        *chain(
            stage("list_files", 0.0),
            stage("shuffle", 0.0, arguments={"buffer_size": 10_000}),
            stage("map", 0.09, **_FITS),
            stage("batch", 0.01),
        )
    ),
    # the length of the epoch stands in for the cardinality that records lack
    starved(
        *chain(stage("map", 0.09, **{**_FITS, "cardinality": None})),
        loop=Loop("fit", where=SITE, batch_size=32, epochs=None, epoch_steps=300),
    ),
    # a shuffle behind it is filled with the same work in every epoch
    starved(
        *chain(
            stage("map", 0.09, **_FITS),
            stage("shuffle", 0.001, arguments={"buffer_size": 5000}),
        ),
        loop=Loop("fit", where=SITE, batch_size=32, epochs=None, epoch_steps=300),
        between_epochs=BetweenEpochs(15.0, 2, epoch_steps=300, restart_s=14.0),
    ),
]

tries_not = [
    # a generator that Keras makes of what it is given
    starved(*chain(stage("from_generator", 0.09, by_user=False, **_FITS))),
    starved(*chain(stage("map", 0.09, **_FITS)), resident=0.1),
    # the input takes next to nothing of what a step loses
    starved(*chain(stage("map", 0.0001, **_FITS)), real=0.0156, resident=0.013, input=0.0001),
    starved(stage("map", None, **_FITS), stage("cache", None)),
    starved(stage("map", None, stateful_random=True, **_FITS)),
    starved(stage("map", None, **_FITS), machine=machine(available=8 * GIB)),
    starved(
        stage("map", None, **_FITS),
        loop=Loop("fit", where=SITE, batch_size=32, epochs=1, epoch_steps=300),
    ),
]

tries = [
    starved(stage("map", None, **_FITS)),
    starved(*chain(stage("map", 0.09, **_FITS)), resident=None),
    # a generator, whose length tf.data does not know
    starved(
        *chain(
            stage("from_generator", 0.09, python=True, **{**_FITS, "cardinality": None}),
            stage("batch", 0.01, **_FITS),
        )
    ),
    starved(
        stage("list_files", None),
        stage("shuffle", None, arguments={"buffer_size": 500}),
        stage("map", None, **_FITS),
        stage("batch", None),
        resident=None,
        input=None,
    ),
]

examples = [
    Example(
        before="ds = ▸files.map(load)◂.batch(32)\n",
        after="ds = files.map(load).cache().batch(32)\n",
    ),
    Example(  # too much for memory
        before="import tensorflow as tf\n\nds = ▸files.map(load)◂.batch(32)\n",
        after="import tensorflow as tf\nimport tempfile\n\n"
        "cache_folder = tempfile.TemporaryDirectory()\n\n"
        'ds = files.map(load).cache(tempfile.mkdtemp(dir=cache_folder.name) + "/items")'
        ".batch(32)\n",
        data={"disk": True},
    ),
    *SPLIT,
    *GENERATORS,
    Example(
        before="ds = ▸files.shuffle(1000).map(load)◂.batch(32)\n",
        after="ds = files.shuffle(1000).map(load).cache().shuffle(1000).batch(32)\n",
        data={"buffer": 1000},
    ),
]

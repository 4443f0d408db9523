"""The cases of `tf_interleave_parallel`."""

from __future__ import annotations

from fixes.cases.common.cases import machine, stage
from fixes.cases.tf_data._input_cases import fed, starved
from rewriting import Example
from trainperf.model import PhaseUse

silent = [
    fed(stage("interleave", 0.07, arguments={"cycle_length": 8})),
    starved(stage("interleave", 0.09, arguments={"num_parallel_calls": -1})),
    starved(stage("interleave", 0.09, arguments={"num_parallel_calls": 4, "cycle_length": 4})),
    starved(stage("interleave", 0.09, parallelised_by_default=True)),
    # nothing to overlap: one file at a time was asked for
    starved(stage("interleave", 0.09, arguments={"cycle_length": 1})),
    starved(stage("interleave", 0.09, arguments={"cycle_length": 8}), machine=machine(cores=1)),
    starved(stage("interleave", 0.09, python=True)),
    starved(stage("interleave", 0.004), stage("map", 0.096)),
    starved(stage("interleave", None)),
]

fires = [
    starved(stage("interleave", 0.09, arguments={"cycle_length": 8})),
    starved(stage("interleave", 0.06), stage("map", 0.04)),
    starved(
        stage("interleave", 0.09, arguments={"cycle_length": 8}),
        machine=machine(cores=1),
        use=(PhaseUse("input", 20, cpu_cores=0.1),),
    ),
]

tries_not = [
    starved(stage("interleave", None, arguments={"cycle_length": 8}), resident=0.1),
    starved(stage("interleave", None, arguments={"num_parallel_calls": -1})),
    starved(stage("interleave", None, arguments={"cycle_length": 1})),
    starved(stage("interleave", 0.004), stage("map", 0.096)),
]

tries = [
    starved(stage("interleave", None)),
    starved(stage("interleave", 0.09, arguments={"cycle_length": 8}), resident=None),
    starved(stage("interleave", 0.09, arguments={"cycle_length": 8}), machine=machine(cores=1)),
    starved(stage("interleave", 0.09, python=True)),
]

examples = [
    Example(
        before=(
            "import tensorflow as tf\n\n"
            "ds = ▸files.interleave(tf.data.TFRecordDataset, cycle_length=8)◂\n"
        ),
        after=(
            "import tensorflow as tf\n\n"
            "ds = files.interleave(tf.data.TFRecordDataset, cycle_length=8, "
            "num_parallel_calls=tf.data.AUTOTUNE)\n"
        ),
    ),
    Example(
        before=(
            "import tensorflow as tf\n\nds = ▸files.interleave(open_file, 8, 1, None)◂.batch(32)\n"
        ),
        after=(
            "import tensorflow as tf\n\n"
            "ds = files.interleave(open_file, 8, 1, tf.data.AUTOTUNE).batch(32)\n"
        ),
    ),
    Example.untouched("import tensorflow as tf\n\nds = ▸files.interleave(open_file, **how)◂\n"),
]

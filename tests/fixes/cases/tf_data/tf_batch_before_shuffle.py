"""The cases of `tf_batch_before_shuffle`."""

from __future__ import annotations

from fixes.cases.common.cases import OTHER_SITE, SITE, stage
from fixes.cases.tf_data._input_cases import starved
from trainperf.model import Site

CHAINED = Site("train.py", 12, "main", col=5, end_line=12, end_col=28)
"""The inner of two calls of one chain: it starts where the outer one starts."""

OUTER = Site("train.py", 12, "main", col=5, end_line=12, end_col=41)

silent = [
    starved(stage("shuffle", 0.01), stage("batch", 0.09)),
    # taken apart again in between
    starved(stage("batch", 0.09), stage("unbatch", 0.01), stage("shuffle", 0.0)),
    # shuffled as samples already
    starved(stage("shuffle", 0.01), stage("batch", 0.08), stage("shuffle", 0.01)),
    # a library's batches, such as image_dataset_from_directory
    starved(stage("batch", 0.09, where=None, by_user=False), stage("shuffle", 0.01)),
    # batches by length
    starved(stage("bucket_by_sequence_length", 0.09), stage("shuffle", 0.01)),
    starved(stage("batch", 0.09)),
]

fires = [
    starved(stage("batch", 0.09, where=CHAINED), stage("shuffle", 0.01, where=OUTER)),
    starved(
        stage("padded_batch", 0.05, where=SITE),
        stage("map", 0.01),
        stage("shuffle", 0.01, where=OTHER_SITE, arguments={"buffer_size": 100}),
    ),
]

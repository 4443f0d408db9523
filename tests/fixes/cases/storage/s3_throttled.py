"""The cases of `s3_throttled`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.storage._s3_cases import READ, reads

silent = [
    reads(),
    reads(READ),
    # other errors
    reads(replace(READ, errors=(("NoSuchKey", 4), ("AccessDenied", 2)))),
    # once in a while
    reads(replace(READ, errors=(("SlowDown", 3),))),
    # the probe alone was refused: that says little about the script
    reads(replace(READ, probe_errors=(("SlowDown", 3),))),
]

fires = [
    reads(replace(READ, errors=(("SlowDown", 40),))),
    reads(replace(READ, errors=(("503", 90), ("NoSuchKey", 1)), latency_s=None)),
    reads(replace(READ, errors=(("SlowDown", 4_000),), requests=110_000)),
    reads(replace(READ, errors=(("SlowDown", 40),), request_s=None)),
]

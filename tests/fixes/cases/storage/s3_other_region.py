"""The cases of `s3_other_region`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.storage._s3_cases import ELSEWHERE, READ, reads
from trainperf.model import Objects

silent = [
    reads(),
    reads(READ),
    # no instance, or its region or the bucket's is not known
    reads(READ, instance=None),
    reads(READ, instance=replace(ELSEWHERE, region=None)),
    reads(replace(READ, region=None), instance=ELSEWHERE),
    # a store of one's own names regions as it likes
    reads(replace(READ, endpoint="http://minio:9000"), instance=ELSEWHERE),
]

fires = [
    reads(READ, instance=ELSEWHERE),
    # named only, or the step does not wait: it is charged all the same
    reads(Objects("data", region="eu-west-1"), instance=ELSEWHERE),
    reads(READ, real=1.1, resident=1.09, instance=ELSEWHERE),
]

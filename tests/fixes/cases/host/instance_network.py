"""The cases of `instance_network`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import CPU
from fixes.cases.host._instance_rates import reading
from fixes.cases.host._instances import PRICES, on_instance
from trainperf.fixes.common.words import MB
from trainperf.model import Objects


def _from_s3(per_step: float | None = 160.0, rate: float = 310.0) -> dict[str, Any]:
    """A step of 20 ms that reads so many objects of 100 kB; the probe's rate in MB/s."""
    one = Objects(
        "my-data",
        "eu-west-1",
        requests=4000,
        mean_object_bytes=100_000.0,
        throughput=((1, 80.0 * MB), (8, rate * MB), (32, rate * MB)),
        requests_per_step=per_step,
    )
    return {"reads": (), "objects": (one,)}


silent = [
    # no instance, nothing read, no rates
    reading("efs", cold=310.0, needed=800.0, machine=on_instance("x9.large")["machine"]),
    reading(reads=()),
    reading("efs", cold=None),
    reading(**_from_s3(per_step=None)),
    reading(reads=(), objects=(Objects("my-data", requests_per_step=9.0),)),
    # the step does not wait
    reading("lustre", cold=310.0, needed=800.0, real=0.021),
    reading("efs", cold=310.0, needed=800.0, real=0.100, resident=0.093),
    # far below what the network gives: the file system, or too few requests at once
    reading("efs", cold=100.0, needed=800.0),
    reading(**_from_s3(rate=85.0)),
    # the step needs no more
    reading("efs", cold=310.0, needed=320.0),
    reading(**_from_s3(per_step=60.0)),
    # it does not come over the network
    reading("ebs", cold=310.0, needed=800.0),
    # none with the same GPU has more
    reading("efs", name="p5.4xlarge", cold=12500.0, needed=30000.0),
    # it trains on the CPU
    reading("efs", cold=310.0, needed=800.0, device=CPU),
]

fires = [
    reading("efs", cold=310.0, needed=800.0),
    reading("s3 mount", name="ml.g5.xlarge", cold=300.0, needed=900.0),
    reading("lustre", cold=1200.0, needed=2900.0),
    reading(**_from_s3()),
    reading(**_from_s3(), machine=on_instance(available=4 * 1024**3, prices=PRICES)["machine"]),
]

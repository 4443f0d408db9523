"""The cases of `instance_storage`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import CPU
from fixes.cases.dataloader._input_cases import LOOP
from fixes.cases.host._instance_rates import reading
from fixes.cases.host._instances import PRICES, on_instance

silent = [
    # no instance, no files, no rates
    reading(machine=on_instance("x9.large")["machine"]),
    reading(reads=()),
    reading(cold=None),
    reading(needed=None),
    # the step does not wait
    reading(real=0.021),
    reading(real=0.100, resident=0.093),
    # the volume, or the reader, is slower than the instance
    reading(cold=40.0),
    # faster than the instance gives: not from EBS at all
    reading(cold=900.0),
    # the step needs no more
    reading(needed=92.0),
    # other volumes
    reading("nvme"),
    reading("efs"),
    # an epoch fits into memory
    reading(machine=on_instance(available=64 * 1024**3)["machine"]),
    # none with the same GPU has more
    reading(name="p5.4xlarge", cold=1250.0, needed=3000.0),
    # it trains on the CPU
    reading(device=CPU),
]

fires = [
    reading(),
    reading(machine=on_instance(available=4 * 1024**3, prices=PRICES)["machine"]),
    reading(name="ml.g5.xlarge", cold=100.0),
    # now in its burst
    reading(cold=430.0, needed=2200.0),
    # not even the largest has enough
    reading(needed=9000.0),
    # read once
    reading(machine=on_instance(available=64 * 1024**3)["machine"], loop=replace(LOOP, epochs=1)),
]

"""The cases of `instance_cores`."""

from __future__ import annotations

from fixes.cases.common.cases import CPU, evidence, machine
from fixes.cases.common.torch_cases import torch_evidence
from fixes.cases.dataloader._input_cases import WITH_WORKERS
from fixes.cases.dataloader._input_cases import starved as torch_starved
from fixes.cases.host._instances import PRICES, on_instance
from fixes.cases.ranks._parallel_cases import job
from fixes.cases.tf_data._input_cases import fed, starved
from trainperf.fixes.host._instances import used

silent = [
    # no instance, or none that is known
    starved(use=used(4.0, 4.0)),
    torch_starved(WITH_WORKERS, use=used(4.0, 4.0)),
    starved(**on_instance("x9.large"), use=used(4.0, 4.0)),
    # nothing tells what the cores did, or too little
    starved(**on_instance()),
    starved(**on_instance(), use=used(4.0)),
    starved(**on_instance(), use=used(4.0, 4.0, samples=2)),
    # the GPU does not wait
    fed(**on_instance(), use=used(4.0, 4.0)),
    starved(**on_instance(), use=used(4.0, 4.0), real=0.100, resident=0.093),
    torch_evidence(**on_instance(), use=used(4.0, 4.0)),
    # cores are idle: make the input parallel first
    starved(**on_instance(), use=used(1.2, 1.1)),
    starved(**on_instance(), use=used(3.9, 2.0)),
    starved(**on_instance(), use=used(2.0, 3.9)),
    # the cores are busy with the step, not with the input
    starved(**on_instance(), use=used(4.0, 3.9), input=0.010),
    # the container is the limit
    starved(**on_instance(cores=2), use=used(2.0, 2.0)),
    # it trains on the CPU, on one GPU of many, or in several processes
    starved(**{**on_instance(), "device": CPU}, use=used(4.0, 4.0)),
    starved(**on_instance("g5.12xlarge"), use=used(48.0, 48.0)),
    torch_starved(**on_instance(), use=used(4.0, 4.0), parallel_=job()),
    starved(**on_instance("ml.g5.xlarge", hosts=2), use=used(4.0, 4.0)),
    # there is none with more
    starved(**on_instance("g5.16xlarge"), use=used(64.0, 64.0)),
    starved(**on_instance("ml.p5.4xlarge"), use=used(16.0, 16.0)),
    evidence(machine=machine()),
]

fires = [
    starved(**on_instance(), use=used(4.0, 4.0)),
    starved(**on_instance(prices=PRICES), use=used(3.8, 3.9)),
    torch_starved(WITH_WORKERS, **on_instance("g5.2xlarge"), use=used(7.9, 7.5)),
    torch_starved(WITH_WORKERS, **on_instance("ml.g5.xlarge"), use=used(3.9, 3.9)),
    # even the largest has too few
    starved(**on_instance("g5.8xlarge"), use=used(32.0, 32.0)),
    # all GPUs of the instance are used by one process
    starved(
        **on_instance("g5.12xlarge"),
        use=used(47.0, 47.0),
        parallel_=job("tensorflow", replicas=4),
    ),
]

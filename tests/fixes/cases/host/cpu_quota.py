"""The cases of `cpu_quota`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import GPU, evidence, machine
from trainperf.model import ContainerUse, Evidence, PhaseUse


def _limited(
    share: float | None = 0.7,
    *,
    quota: float | None = 2.0,
    visible: int = 8,
    training: float | None = None,
    gpu_percent: float | None = None,
    **fields: Any,
) -> Evidence:
    """A run in a container of two cores on a machine of eight."""
    gpu = () if gpu_percent is None else ({"index": 0, "utilization_percent": gpu_percent},)
    fields.setdefault("machine", machine(cores=visible, container="docker"))
    return evidence(
        container=ContainerUse(20.0, quota_cores=quota, throttled_share=share, throttled_s=12.0),
        use=tuple(
            PhaseUse(name, 20, gpu=gpu, throttled_share=training) for name in ("real", "resident")
        ),
        **fields,
    )


silent = [
    evidence(),
    evidence(container=ContainerUse(20.0)),
    # a quota that is never used up, or hardly
    _limited(0.0),
    _limited(0.02),
    # only while the script started
    _limited(0.7, training=0.0),
    # all the cores there are
    _limited(0.7, quota=8.0),
    # the kernel does not say
    _limited(None),
    _limited(0.7, quota=None),
    # the GPU is never out of work
    _limited(0.7, device=GPU, gpu_percent=97.0),
    _limited(0.7, real=None),
]

fires = [
    _limited(),
    _limited(0.1, training=0.9),
    _limited(0.7, quota=0.5, visible=2),
    _limited(0.7, device=GPU, gpu_percent=40.0),
]

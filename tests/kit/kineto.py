"""Events in the shape of Kineto's: made by hand, or read from a Chrome trace."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path

from trainperf.recording.chrome_trace import ENGINE as NODE
from trainperf.recording.chrome_trace import ON_DEVICE, ChromeTrace, events
from trainperf.recording.chrome_trace import TraceEvent as Seen

__all__ = ["NODE", "ON_DEVICE", "RUNS", "Older", "Seen", "recorded", "trace"]

RUNS = Path(__file__).parents[1] / "data" / "gpu_runs"


class Older(Seen):
    """From a version whose events do not say what kind they are."""

    activity_type = None

    def is_user_annotation(self) -> bool:
        return self.kind.endswith("annotation")


@cache
def recorded(name: str) -> tuple[Seen, ...]:
    """The events of a recorded run of `data/gpu_runs`, from the first one on."""
    written = json.loads(lzma.decompress((RUNS / f"{name}.json.xz").read_bytes()))
    return tuple(events(written["traceEvents"]))


def trace(name: str) -> ChromeTrace:
    """A recorded run as its file would be read."""
    return ChromeTrace(recorded(name), CARDS.get(name, (("Tesla V100-SXM2-32GB", "7.0", None),)))


CARDS: dict[str, tuple[tuple[str, str, int | None], ...]] = {
    "a100_8ranks_healthy": (("NVIDIA A100-PG509-200", "8.0", None),) * 8,
    "a100_16ranks_hostbound": (("NVIDIA A100-SXM4-80GB", "8.0", None),) * 8,
    "rtx2080ti_resnet_starved": (("NVIDIA GeForce RTX 2080 Ti", "7.5", None),),
    "v100_2ranks_busy": (("Tesla V100-SXM2-16GB", "7.0", None),) * 2,
}
"""The GPUs of the host, as the whole file names them."""

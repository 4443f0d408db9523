"""The input channels of a SageMaker training job, as its container is told of them."""

from __future__ import annotations

import json
from pathlib import Path

from trainperf.model import Channel

CONFIG = "opt/ml/input/config/inputdataconfig.json"
DATA = "/opt/ml/input/data"


def channels(root: Path = Path("/")) -> tuple[Channel, ...]:
    """The channels by name; empty outside of SageMaker, and where the file cannot be read.

    `TrainingInputMode` is the mode of a channel in that file; without it a channel has
    the mode of the job, which is not told: "".
    """
    try:
        config = json.loads((root / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    if not isinstance(config, dict):
        return ()
    return tuple(
        Channel(
            name=name,
            mode=str(one.get("TrainingInputMode") or ""),
            path=f"{DATA}/{name}",
            source=_source(one),
            content_type=str(one.get("ContentType") or ""),
        )
        for name, one in sorted(config.items())
        if isinstance(one, dict)
    )


def _source(one: dict[str, object]) -> str:
    kind = str(one.get("FileSystemType") or "")
    if kind:
        return "FSx" if kind == "FSxLustre" else kind
    return "S3" if one.get("S3DistributionType") else ""

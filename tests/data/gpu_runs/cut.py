"""Cut Chrome traces of whole runs to what a test reads of them: `cut.py FROM.json.gz... TO`.

All steps stay, with all that ran on the device, and what started it; operators that started
nothing and have no node in the backward graph go, with flows, memory, shapes, and the lines of
libraries in call stacks. Times and names stay as they were recorded.
"""

from __future__ import annotations

import bisect
import gzip
import json
import lzma
import sys
from pathlib import Path
from typing import Any

WORK = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")
CALLS = ("cuda_runtime", "Runtime")
OPERATORS = ("cpu_op", "user_annotation", "Operator")
KEPT = ("correlation", "device", "stream", "External id", "external id", "Sequence number")
KEPT += ("Fwd thread id",)


def cut(trace: dict[str, Any]) -> dict[str, Any]:
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    work = [event for event in events if event["cat"] in WORK]
    started = {event["args"]["correlation"] for event in work}
    calls = [event for event in events if event["cat"] in CALLS]
    calls = [event for event in calls if event["args"].get("correlation") in started]
    kept = [*work, *calls]
    at = sorted((call["tid"], call["ts"]) for call in calls)
    for event in events:
        if event["cat"] in OPERATORS and (
            "Sequence number" in event["args"] or "::" not in event["name"] or _starts(event, at)
        ):
            kept.append(event)
    return {"traceEvents": [_shorter(event) for event in kept]}


def _starts(event: dict[str, Any], at: list[tuple[Any, float]]) -> bool:
    first = bisect.bisect_left(at, (event["tid"], event["ts"]))
    return first < len(at) and at[first] <= (event["tid"], event["ts"] + event["dur"])


def _shorter(event: dict[str, Any]) -> dict[str, Any]:
    args = {name: event["args"][name] for name in KEPT if name in event["args"]}
    stack = event["args"].get("Call stack", "").split(";")
    if own := [line for line in stack if line and "site-packages" not in line]:
        args["Call stack"] = ";".join(own)
    return {name: event[name] for name in ("cat", "name", "tid", "ts", "dur")} | {"args": args}


def main(files: list[str], folder: str) -> None:
    for file in map(Path, files):
        trace = cut(json.loads(gzip.decompress(file.read_bytes())))
        text = json.dumps(trace, separators=(",", ":")).encode()
        target = Path(folder) / file.name.replace(".gz", ".xz")
        target.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main(sys.argv[1:-1], sys.argv[-1])

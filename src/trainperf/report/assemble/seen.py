"""The framework of a run in which no training loop was seen."""

from __future__ import annotations

from trainperf.model import Framework, Recording


def framework_seen(recording: Recording) -> Framework:
    """The framework that was imported, if any; of two the first, which the script asked for."""
    for events in recording.events.values():
        for event in events:
            if event["e"] == "import" and event["name"] == "torch":
                return Framework("torch", event["version"])
            if event["e"] == "import":
                return Framework("tensorflow", event["version"])
    return Framework("", "")

"""Where a script was when it was stopped before it trained, or stood still."""

from __future__ import annotations

from trainperf.fixes.common.words import at
from trainperf.model import Ending, Recording, Site
from trainperf.model.words import seconds

GIVEN_UP = (Ending.STALLED, Ending.OUT_OF_BUDGET, Ending.INTERRUPTED)
LOOKS_S = 3.0
"""So many seconds pass between two looks, see `child.process.process`."""


def last_place(recording: Recording) -> str:
    """Say at which line a script stood that was given up, as a sentence; "" if that is not known.

    Of several processes, that of the line which was reached last.
    """
    if recording.ending not in GIVEN_UP:
        return ""
    seen = [event for events in recording.events.values() for event in events if event["e"] == "at"]
    if not seen:
        return ""
    last = max(seen, key=lambda event: float(event["t"]))
    place = at(Site(last["file"], last["line"], last["function"]))
    if not last["function"].startswith("<"):
        place = f"{place} in `{last['function']}`"
    within = f", in a call of `{last['into']}`" if last["into"] else ""
    passed = recording.ended - float(last["t"])
    since = f"had been for {seconds(passed)}" if passed > 2 * LOOKS_S else "was"
    return f"When it was stopped, the script {since} at {place}{within}."

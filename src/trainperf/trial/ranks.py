"""The processes of a job that train, by their rank, read from what they recorded. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainperf.child.timing.legs.words import MOST_RANKS
from trainperf.model import Event
from trainperf.run.event_files import training


def place(events: Sequence[Event]) -> Event | None:
    """The last word of a process on its rank; None if it is none of several."""
    last = None
    for event in events:
        if event["e"] == "rank" and int(event.get("world_size") or 1) > 1:
            last = event
    return last


def by_rank(events: Mapping[int, Sequence[Event]]) -> dict[int, Sequence[Event]]:
    """The events of the processes that train, by process id, that of rank 0 first."""

    def order(found: tuple[int, Sequence[Event]]) -> int:
        known = place(found[1])
        return int(known["rank"]) if known is not None else 0

    return dict(sorted(training(events).items(), key=order))


def count(events: Mapping[int, Sequence[Event]]) -> int:
    """How many processes take each step together."""
    return max(1, len(training(events)))


def launcher(events: Mapping[int, Sequence[Event]]) -> str:
    """The launcher of the ranks ("torchrun", "multiprocessing", "TF_CONFIG"), "" if unknown."""
    known = [place(one) for one in training(events).values()]
    return next((str(one.get("launcher") or "") for one in known if one is not None), "")


def obstacle(events: Mapping[int, Sequence[Event]], host: str) -> str:
    """Why the processes that train cannot be let run and stopped together, or nothing.

    `host` is the name of this host.
    """
    trains = training(events)
    places = [place(one) for one in trains.values()]
    known = [one for one in places if one is not None]
    if len(trains) <= 1 and not known:
        return ""
    if len(known) < len(trains):
        return f"{len(trains)} processes train, and which of them belong together is not known"
    if not all(one.get("tied", True) for one in known):
        return f"{len(trains)} processes train that do not exchange gradients as far as is seen"
    hosts = {str(one["host"]) for one in known if one.get("host")}
    sizes = {int(one["world_size"]) for one in known}
    if hosts - {host} or len(hosts) > 1:
        return "its ranks run on several hosts, and trials stop and wake processes of this one"
    size = max(sizes)
    if len(sizes) > 1 or sorted(int(one["rank"]) for one in known) != list(range(size)):
        return f"the job has {size} ranks, and {len(trains)} of them were seen to train here"
    if size > MOST_RANKS:
        return f"the job has {size} ranks on this host; up to {MOST_RANKS} can take turns"
    return ""

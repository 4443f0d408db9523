"""One process of a job: its times, its device, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainperf.evidence.events import Observed, main_loop
from trainperf.evidence.facts import described, loop
from trainperf.evidence.timing import measure, times
from trainperf.model import Event, Measure, Missing, Rank
from trainperf.model.parallel import GONE

TIMED = {
    "warmup": "the warm-up",
    "real": "the real phase",
    "local": "the phase without exchange",
    "resident": "the resident phase",
    "input": "the input phase",
    "profile": "the phase in which stacks are sampled",
    "idle": "a phase that was left out",
}
"""The phases that all ranks go through; a process that came further was measured."""


LOST = re.compile("connection (closed|reset)|remote (worker|process|peer)|broken pipe", re.I)
"""Messages of gloo, NCCL and gRPC where the process on the other side is gone."""

LONGEST = 160
"""Characters of an error that are told; gloo's go on with an address and advice."""

ENDED = "the run ended before a step without exchange was timed"
NOT_SWITCHED = "the exchange of gradients was not switched off in this loop"


def summarise(events: Sequence[Event]) -> Rank | None:
    """Read one process's events into its `Rank`; None if it neither trained nor is a rank.

    One pass per kind of event, so linear in the events, which may be dropped afterwards.
    A process that does not say which rank it is counts as rank 0 (a job of one process).
    """
    process = tuple(events)
    observed = main_loop(process)
    if observed is None:
        return _without_loop(process)
    place = observed.place or {}
    facts, taken = loop(observed), times(observed)
    return Rank(
        rank=int(place.get("rank", 0)),
        host=str(place.get("host") or ""),
        pid=_pid(process),
        ended=_ended(observed),
        local_rank=place.get("local_rank"),
        device=str(place.get("device") or "") or _device(observed),
        gpu_uuid=_gpu_uuid(observed),
        real=taken.real_,
        resident=taken.resident_,
        local=local(observed),
        input_=taken.input_,
        batch_size=facts.batch_size,
        epoch_steps=facts.epoch_steps,
        threads=place.get("threads"),
        cores=_cores(place),
    )


def local(observed: Observed) -> Measure | Missing:
    """The step with the exchange of gradients switched off, or why there is none."""
    blocks = any(event["p"] == "local" for event in observed.of("block"))
    steps = any(event["p"] == "local" for event in observed.of("step"))
    if not blocks and not steps:
        cut = _ended(observed) != "measured"
        return observed.missing("local", ENDED if cut else NOT_SWITCHED)
    return measure(observed, "local")


def _without_loop(process: tuple[Event, ...]) -> Rank | None:
    """A rank in which no training loop was seen, though its job has one."""
    place = Observed(process, {}, ()).place
    if place is None:
        return None
    reason = Missing("no training loop was seen in it")
    error = _error(process)
    ended = reason.reason if error is None else _failed(error, "before a training loop began")
    return Rank(
        rank=int(place["rank"]),
        host=str(place.get("host") or ""),
        pid=_pid(process),
        ended=ended,
        local_rank=place.get("local_rank"),
        device=str(place.get("device") or ""),
        real=reason,
        resident=reason,
        local=reason,
        input_=reason,
        threads=place.get("threads"),
        cores=_cores(place),
    )


def _ended(observed: Observed) -> str:
    """Say how the process ended: "measured", or what happened in which phase.

    Where its launcher stops a rank because another one is done, it may not have said
    that all is measured: to be past the timed phases is enough.
    """
    last: Event | None = None
    for last in observed.of("phase"):  # noqa: B007 - the last one is what is wanted
        pass
    phase = "warmup" if last is None else str(last["p"])
    if phase not in TIMED or next(observed.of("measured"), None) is not None:
        return "measured"
    error = _error(observed.loop)
    if error is not None:
        return _failed(error, f"in {TIMED[phase]}")
    if next(observed.of("exit"), None) is not None:
        return f"ended by itself in {TIMED[phase]}"
    return f"stopped in {TIMED[phase]}"


def _error(events: Sequence[Event]) -> Event | None:
    return next((event for event in reversed(events) if event["e"] == "error"), None)


def _failed(error: Event, when: str) -> str:
    """Say when a rank failed and with what; the first line of the error, without its end."""
    text = str(error.get("text") or "").strip()
    if LOST.search(text):
        return f"failed {when}, {GONE} ({error['type']})"
    line = text.partition("\n")[0]
    if len(line) > LONGEST:
        line = line[:LONGEST].rpartition(" ")[0] + " …"
    return f"failed {when} with {error['type']}{': ' if line else ''}{line}"


def _pid(process: tuple[Event, ...]) -> int | None:
    for event in process:
        if event["e"] == "hello":
            return event.get("pid")
    return None


def _cores(place: Event) -> tuple[int, ...] | None:
    cores = place.get("cores")
    return tuple(cores) if cores else None


def _device(observed: Observed) -> str:
    """The rank's device as the framework says, where the rank did not say it itself."""
    event = described(observed)
    if event is None:
        return ""
    gpus = [one for one in event["gpus"] if one["used"]]
    if gpus:
        name = str(gpus[0]["name"] or "GPU")
        return name if len(gpus) == 1 else f"{len(gpus)} × {name}"
    logical = int(event["logical"] or 1)
    return "CPU" if logical < 2 else f"{logical} logical CPUs"


def _gpu_uuid(observed: Observed) -> str | None:
    event = described(observed)
    used = [] if event is None else [one for one in event["gpus"] if one["used"]]
    return used[0]["uuid"] if used else None

"""When a loop may be called healthy: what must have been examined, and what that claim covers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from trainperf.fixes.common.words import at, percent
from trainperf.model import Evidence, Missing, Outcome, Trial, Verdict
from trainperf.verdict import torch
from trainperf.verdict.probable import not_examined, probably, varying, would
from trainperf.verdict.sync import hidden_share

QUIET = 0.10
"""Noise of a step up to which it may be called healthy: larger gains than that would show."""

HIDDEN = 0.25
"""An exchange of gradients that may take more than this of a step is no healthy one."""

BESIDE = 0.15
"""Share of a step beside the model above which a loop is not called healthy: no rule knows what
else could be computed there."""

NOT_MADE = re.compile(r"\btime\b|budget|several|processes|Error\b|failed|could not|interrupted")
"""Reasons for which a probe that applies was not made. Others say that it does not apply."""

DECIDED = re.compile(r"slower")
"""Reasons that are themselves an answer."""

TRIES = {"compiled": "tf_function", "double_batch": "batch_size"}
"""Probes, and how the fix is called whose trial tells the same; others end in the probe's name."""

MOST_NAMED = 6


def sound(evidence: Evidence, trials: Sequence[Trial] = ()) -> Verdict:
    """The verdict on a loop in which nothing to repair was found: healthy, if that was examined.

    `trials` are those that were made on the script.
    """
    share = own_share(evidence)
    if share is None:
        return not_examined(evidence)
    if evidence.times.noise > QUIET + 1e-9:
        return probably(evidence, ())
    hidden = hidden_share(evidence)
    utilization = evidence.known_utilization
    if hidden > HIDDEN:
        text = (
            f"Probably held up by the exchange of gradients: it may take anything up to "
            f"{percent(hidden)} of a step; {varying(evidence)}."
        )
        return Verdict("none", text, utilization, grade="probable")
    came = tried(trials)
    if left := tuple(_left_out(evidence, trials)):
        names, reasons = _named(name for name, _ in left), _named(why for _, why in left)
        text = (
            f"Nothing to repair was found, and {share}{came}; not examined: {names} ({reasons}); "
            f"{would(reasons)}."
        )
        return Verdict("none", text, utilization, grade="not examined")
    if beside := _beside_model(evidence):
        text = f"No cause that trainperf knows: {beside}{came}."
        return Verdict("none", text, utilization)
    also = f" (the exchange of gradients is up to {percent(hidden)})" if hidden else ""
    nothing = (
        ""
        if came
        else ", and nothing that trainperf knows would make it faster than the noise of "
        "this machine"
    )
    return Verdict("none", f"Healthy: {share}{also}{nothing}{came}.", utilization, healthy=True)


def _beside_model(evidence: Evidence) -> str:
    """What a step takes beside its model, on lines whose work could be another; "" for little."""
    if isinstance(evidence.lines_, Missing):
        return ""
    lines = evidence.lines
    beside = lines.beside_model()
    share = sum(map(lines.computing, beside))
    if share - lines.half_width(share) < BESIDE:
        return ""
    first = max(beside, key=lines.computing)
    return (
        f"{percent(share)} of it passes beside the model and its layers, first of all in "
        f"`{first.text}`, {at(first.where)}"
    )


def tried(trials: Sequence[Trial]) -> str:
    """The outcome of trials where nothing was kept: "; 2 changes were tried …"; "" without any."""
    apart = {one.fix for one in trials if one.outcome is Outcome.CHANGES}
    told = (one.fix for one in trials if one.outcome not in (Outcome.NOT_TRIED, Outcome.FAILED))
    names = [name for name in dict.fromkeys(told) if name not in apart]
    if not names:
        return ""
    open_ = [name for name in names if any(one.fix == name and one.undecided for one in trials)]
    noise = f"; a gain of {_named(open_)} could not be told from noise" if open_ else ""
    if len(names) == 1:
        became = ", which made it no faster" if not open_ else ""
        return f"; one change was tried on the script ({names[0]}){became}{noise}"
    became = "none made it faster" if not open_ else "none surely made it faster"
    return f"; {len(names)} changes were tried on the script ({_named(names)}), {became}{noise}"


def _left_out(evidence: Evidence, trials: Sequence[Trial]) -> Iterator[tuple[str, str]]:
    """Probes and trials that apply and were not made, with the reason."""
    told = tuple(one.fix for one in trials if one.outcome is not Outcome.NOT_TRIED)
    for name, probe in evidence.probes.items():
        if not isinstance(probe, Missing) or DECIDED.search(probe.reason):
            continue
        by_trial = any(fix.endswith(TRIES.get(name, name)) for fix in told)
        if NOT_MADE.search(probe.reason) and not by_trial:
            yield name.replace("_", " "), probe.reason
    for one in trials:
        if one.outcome is Outcome.NOT_TRIED and NOT_MADE.search(one.reason):
            yield one.fix, one.reason


def own_share(evidence: Evidence) -> str | None:
    """Return how much of a step is the model's own, in words; None where that is not known."""
    utilization = evidence.known_utilization
    if utilization is not None:
        return f"{percent(utilization)} of each step is the step itself"
    if torch.taken_apart(evidence):
        return (
            f"{percent(torch.own_share(evidence))} of each step is forward, backward and optimizer"
        )
    return None


def _named(names: Iterable[str]) -> str:
    known = list(dict.fromkeys(names))
    more = len(known) - MOST_NAMED
    return ", ".join(known[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")

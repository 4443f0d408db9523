"""Debug modes of PyTorch that were left on."""

from __future__ import annotations

from typing import Any

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved, step_may_matter
from trainperf.fixes.common.trainers import seen_in_call
from trainperf.fixes.common.words import at, ms, worth
from trainperf.fixes.torch_step._step import compute_seconds
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.rewrite.arguments import RecordedCall, Wanted, set_argument

MODES = ("anomaly", "profiler", "deterministic")

WHAT = {
    "anomaly": "Anomaly detection keeps the Python stack of each operation of the forward, and "
    "looks for NaN after each of the backward.",
    "profiler": "The profiler records each operation of the steps.",
    "deterministic": "Deterministic algorithms rule out the fastest kernels of the GPU, and fill "
    "new memory.",
}
NAMES = {
    "anomaly": "Anomaly detection",
    "profiler": "The profiler",
    "deterministic": "Deterministic mode",
}
OFF = {
    "anomaly": "torch.autograd.set_detect_anomaly(False)",
    "profiler": "# take the profiler out, or give it a schedule of a few steps",
    "deterministic": "torch.use_deterministic_algorithms(False)",
}
SWITCHES = ("set_detect_anomaly", "use_deterministic_algorithms")
"""Functions whose first argument, `mode`, turns a mode on or off."""


class DebugModes(Fix):
    """Turn the debug modes off.

    ## Why it is slow
    Anomaly detection walks the Python stack at every operation and checks every
    gradient for NaN. A profiler writes an event for every operation. Deterministic
    algorithms leave the fastest kernels of a GPU out.

    ## What changes
    `set_detect_anomaly(True)` and `use_deterministic_algorithms(True)` get `False`;
    `detect_anomaly()` becomes `set_detect_anomaly(False)`. Without determinism, two
    runs on a GPU differ in the last digits.

    ## When not to
    - While you look for a NaN, or for the cause of a difference between two runs.
    - Where results must be the same bit by bit. A profiler with a schedule of a few
      steps costs nothing afterwards.
    """

    category = "host"
    usual = 2.0
    equivalence = Equivalence.EXACT
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find modes that are on during the steps."""
        on = [name for name in MODES if evidence.torch.flags.get(name) is True]
        if evidence.device.kind != "GPU" and on == ["deterministic"]:
            return None
        passes = _passes(evidence) if "anomaly" in on else None
        bound = None if passes is None else bound_if_saved(evidence, passes)
        if not on or (not worth(evidence, bound) if bound else not step_may_matter(evidence)):
            return None
        sites = {name: _site(evidence.torch.flags.get(f"{name}_where")) for name in on}
        where = tuple(site for name, site in sites.items() if site is not None)
        names = [NAMES[name] for name in on]
        listed = names[0] + "".join(f", {name[0].lower()}{name[1:]}" for name in names[1:])
        place = at(next(iter(where), None))
        switched = [name for name in on if name != "profiler" and sites[name] is not None]
        edited = tuple(site for name in switched if (site := sites[name]) is not None)
        return self.finding(
            title=f"{listed} {'is' if len(on) == 1 else 'are'} on"
            + (f" ({place})" if place else ""),
            text=" ".join(WHAT[name] for name in on)
            + (
                f" Forward and backward take {ms(passes)} of the {ms(evidence.times.real)} step."
                if passes is not None
                else ""
            ),
            bound=bound,
            bound_basis="no time left in forward and backward" if bound else "not measured",
            where=edited or where,
            advice="Turn it off unless you are looking for a fault."
            if len(on) == 1
            else "Turn them off unless you are looking for a fault.",
            snippet="\n".join(OFF[name] for name in on),
            equivalence=Equivalence.NUMERICS if "deterministic" in switched else None,
            data=seen_in_call(evidence, mode=True),
            rewritable=bool(edited) and all(site.exact for site in edited),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the calls that turn a mode on the value that turns it off."""
        for site in finding.where:
            callee = script.expression(site).partition("(")[0].rpartition(".")[2].strip()
            if callee == "detect_anomaly":
                torch = script.module_name(site.file, "torch", site)
                script.replace_call(site, f"{torch}.autograd.set_detect_anomaly(False)")
                continue
            if callee not in SWITCHES:
                raise CannotRewrite("the mode is turned on by a library")
            mode = script.argument(site, 0, "mode")
            if mode is None:
                raise CannotRewrite("whether the mode is on is not written out")
            found = RecordedCall.of(finding.data, "mode", {})
            set_argument(script, site, Wanted("mode", "False", position=0), found)


def _passes(evidence: Evidence) -> float | None:
    """Seconds of a step in forward and backward; None where they were not timed."""
    try:
        return compute_seconds(evidence)
    except NotMeasured:
        return None


def _site(described: Any) -> Site | None:
    """A site as the child describes it: what is not known of it is left out."""
    if not isinstance(described, dict):
        return None
    return Site(**{name: value for name, value in described.items() if value is not None})

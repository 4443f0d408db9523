"""A driver that lets go of an idle GPU and starts it anew for each program."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.gpu._health import on_used
from trainperf.model import Equivalence, Evidence, Finding


class PersistenceMode(Fix):
    """Keep the driver loaded between programs.

    ## Why it is slow
    Without persistence mode the driver lets go of a GPU that no program uses. The next
    one waits while it is started, for a second or more with each GPU. Settings such as
    application clocks are lost meanwhile. A step is as fast as before.

    ## What changes
    `nvidia-smi -pm 1` as root, or the service `nvidia-persistenced`. An idle GPU draws a
    little more power.

    ## When not to
    For one long training it is not worth the command.
    """

    framework = "any"
    category = "practice"
    equivalence = Equivalence.ENVIRONMENT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find GPUs of the run without persistence mode that nothing else keeps awake."""
        found = [
            gpu for gpu in on_used(evidence) if gpu.persistence is False and not gpu.other_processes
        ]
        if not found:
            return None
        which = "GPU " + ", ".join(str(gpu.index) for gpu in found)
        return self.finding(
            title="Persistence mode of the GPU is off",
            text=f"{which}: each program that starts waits for the driver to start the card.",
            bound=None,
            bound_basis="none: it costs the start of a program, not a step",
            advice="Turn it on; it lasts until the machine is restarted.",
            snippet="sudo nvidia-smi -pm 1",
        )

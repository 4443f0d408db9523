"""Memory of a GPU that lost data."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.gpu._health import card, on_used
from trainperf.model import Equivalence, Evidence, Finding

SNIPPET = """\
nvidia-smi -i {index} -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT
# replaces the rows that failed; nothing may use the card meanwhile
sudo nvidia-smi -i {index} --gpu-reset"""


class EccErrors(Fix):
    """Reset or replace a GPU whose memory lost data.

    ## Why it is slow
    The card found errors in its memory that it could not correct. A program that touches
    such a place is ended, and a training that runs for days starts again. It costs no
    time in a step.

    ## What changes
    A reset of the card replaces the rows that failed by spare ones. If errors come back,
    the card is to be replaced; on a cloud machine, stop the instance and start it again.

    ## When not to
    Errors that were corrected are no reason: they cost nothing.
    """

    framework = "any"
    category = "practice"
    equivalence = Equivalence.ENVIRONMENT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find the card with most errors that were not corrected."""
        found = [(gpu.ecc_errors, gpu) for gpu in on_used(evidence) if gpu.ecc_errors]
        if not found:
            return None
        count, gpu = max(found, key=lambda one: one[0])
        errors = "1 error" if count == 1 else f"{count} errors"
        return self.finding(
            title=f"{card(gpu)} has memory errors that it could not correct",
            text=f"The driver counts {errors} since it was loaded.",
            bound=None,
            bound_basis="none: it ends programs, and slows none",
            advice="Reset the card when nothing runs on it; if errors come back, replace it.",
            snippet=SNIPPET.replace("{index}", str(gpu.index)),
        )

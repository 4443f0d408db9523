"""A GPU that computes nothing while Python runs, and the other way round."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved, step_may_matter
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.torch_step._step import compute_seconds
from trainperf.model import Equivalence, Evidence, Finding


class LaunchBlocking(Fix):
    """Run without `CUDA_LAUNCH_BLOCKING`.

    ## Why it is slow
    With `CUDA_LAUNCH_BLOCKING=1`, Python waits for each kernel to end before it starts
    the next. Without it, Python runs ahead and the GPU goes from kernel to kernel.

    ## What changes
    The variable is 0 for the command. The kernels and their results are the same.

    ## When not to
    - While you look for the line at which a CUDA error occurs.
    - A script that sets the variable itself must be changed there.
    """

    category = "environment"
    usual = 1.5
    equivalence = Equivalence.ENVIRONMENT
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a GPU whose kernels are waited for one by one.

        Python and the GPU then take turns, so running side by side saves at most half.
        """
        if evidence.device.kind != "GPU" or evidence.torch.flag("launch_blocking") is not True:
            return None
        bound: float | None = None
        text = "Python waits for each kernel to end before it starts the next."
        try:
            compute = compute_seconds(evidence)
        except NotMeasured:
            if not step_may_matter(evidence):
                return None
        else:
            bound = bound_if_saved(evidence, compute / 2)
            if not worth(evidence, bound):
                return None
            text += (
                f" Forward and backward take {ms(compute)} of the {ms(evidence.times.real)} step; "
                "Python and the GPU take turns in it."
            )
        return self.finding(
            title="CUDA_LAUNCH_BLOCKING is set",
            text=text,
            bound=bound,
            bound_basis="Python and the GPU side by side in forward and backward"
            if bound
            else "not measured",
            advice="Unset CUDA_LAUNCH_BLOCKING: it is meant for finding faults.",
            snippet="unset CUDA_LAUNCH_BLOCKING",
        )

    def environment(self, finding: Finding) -> dict[str, str]:
        """Let Python run ahead of the GPU."""
        return {"CUDA_LAUNCH_BLOCKING": "0"}

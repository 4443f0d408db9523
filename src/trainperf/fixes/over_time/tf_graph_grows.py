"""Operations, graphs or variables of TensorFlow that are made in the loop."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.cases import evidence
from trainperf.fixes.over_time import _growth as growth
from trainperf.fixes.over_time._growth import LATE, LIST, over_time
from trainperf.model import Evidence, Finding, Grown

GRAPHS = Grown("framework", "traced graphs", ((40, 50), (240, 250), (640, 650)))
OPERATIONS = Grown("framework", "operations", ((40, 900), (240, 4900), (640, 12900)))


class GraphGrows(Fix):
    """Make functions, operations and variables once, before the loop.

    ## Why it is slow
    A `tf.function` that is made in the loop is traced anew each time, a `tf.Variable` is a new
    one, and an operation of a TensorFlow 1 graph stays in it. Where something holds them, each
    step has more of them, and more memory.

    ## What changes
    The function, the variable or the operation is made before the loop; each step calls it
    with its values: `variable.assign(…)`, a tensor as the argument, a placeholder.

    ## When not to
    Where the model itself grows on purpose.
    """

    category = "model"
    counted = True
    without_edit = "what belongs before the loop is a choice"

    silent = [
        evidence(),
        evidence(over_time_=over_time()),
        evidence(over_time_=over_time(1.4, grown=(LIST,))),
    ]
    fires = [
        evidence(over_time_=over_time(grown=(GRAPHS,))),
        evidence(over_time_=over_time(1.4, grown=(OPERATIONS, LIST))),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find that there were more of TensorFlow's objects at each look."""
        grown = [one for one in evidence.over_time.grown if one.kind == "framework"]
        if not grown:
            return None
        names = " and ".join(one.name for one in grown)
        counts = "; ".join(
            f"{one.name}: {one.sizes[0][1]:,} after {one.sizes[0][0]:,} steps, "
            f"{one.sizes[-1][1]:,} after {one.sizes[-1][0]:,}"
            for one in grown
        )
        return self.finding(
            title=f"The loop makes {names} that stay",
            text=f"{counts[:1].upper()}{counts[1:]}.{growth.consequence(evidence)}",
            bound=growth.bound(evidence),
            bound_basis=growth.basis(evidence),
            snippet="@tf.function\ndef step(batch):  # before the loop\n    ...",
            data=LATE,
        )

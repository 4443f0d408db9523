"""A model that was built outside of its strategy's scope."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import at, worth
from trainperf.model import Equivalence, Evidence, Finding

SNIPPET = """\
with strategy.scope():
    model = build_model()
    model.compile(optimizer="adam", loss=loss)
"""


class BuildInScope(Fix):
    """Build the model in the strategy's scope.

    ## Why it is slow
    A strategy was made for several devices, but the model was not built under
    `with strategy.scope():`. Keras then trains it on one device, and says nothing; the
    others do nothing.

    ## What changes
    What builds the model, and its `compile`, stand in the scope. Each step gives every
    device its part of the batch and sums the gradients.

    ## When not to
    - Batch normalisation takes its statistics of each device's part of the batch.
    - Small steps lose more by the exchange of gradients than the devices gain.
    - The optimizer has to be made in the scope as well.
    - Logical devices of one CPU share its cores: there is little to gain.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    without_edit = "all that a model is built of, and its optimizer, are to move into the scope"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a `fit` on one device of a model outside of the scope of several."""
        found = evidence.strategy
        alone = evidence.loop.replicas == 1 and evidence.loop.kind == "fit"
        if found is None or found.replicas < 2 or not found.models_outside or not alone:
            return None
        saved = evidence.times.resident * (1 - 1 / found.replicas)
        bound = bound_if_saved(evidence, saved)
        if not worth(evidence, bound):
            return None
        places = ", ".join(at(each) for each in found.models_outside)
        compiled = next((one.compile_where for one in evidence.models), None)
        others = tuple(site for site in (compiled, found.where) if site is not None)
        where = (*found.models_outside, *others)
        return self.finding(
            title=f"{found.cls} does nothing: the model is outside of its scope",
            text=f"A {found.cls} of {found.replicas} devices was made, but the model "
            f"({places}) was built outside of its scope, so `fit` trains on one of them.",
            bound=bound,
            bound_basis=f"the step spread over {found.replicas} devices, the exchange of "
            "gradients left out",
            where=where,
            advice="Build and compile the model under `with strategy.scope():`.",
            snippet=SNIPPET,
        )

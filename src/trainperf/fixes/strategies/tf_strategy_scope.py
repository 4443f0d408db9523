"""A model that was built outside of its strategy's scope."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainperf.fixes import Example, Fix
from trainperf.fixes.common.cases import OTHER_SITE, SITE
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import at, worth
from trainperf.fixes.ranks._parallel_cases import parallel_evidence, strategy
from trainperf.fixes.strategies._scope_edits import put_in_scope
from trainperf.model import Equivalence, Evidence, Finding, Loop, ModelFacts, Site

if TYPE_CHECKING:
    from trainperf.rewrite import Script

SINGLE = Loop("fit", where=SITE, batch_size=64, epochs=10, epoch_steps=1000, input_kind="tf.data")

OUTSIDE = strategy(models_outside=(SITE,), scopes=0)

SNIPPET = """\
with strategy.scope():
    model = build_model()
    model.compile(optimizer="adam", loss=loss)
"""


def _left_alone(*sources: str) -> tuple[Example, ...]:
    return tuple(Example.untouched(each) for each in sources)


class BuildInScope(Fix):
    """Build the model in the strategy's scope.

    ## Why it is slow
    A strategy was made for several devices, but the model was not built under
    `with strategy.scope():`. Keras then trains it on one device, and says nothing; the
    others do nothing.

    ## What changes
    The statements from the one that builds the model to its `compile` move into the
    scope. Each step gives every device its part of the batch and sums the gradients.

    ## When not to
    - Batch normalisation takes its statistics of each device's part of the batch.
    - Small steps lose more by the exchange of gradients than the devices gain.
    - The optimizer has to be made in the scope as well.
    - Logical devices of one CPU share its cores: there is little to gain.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS

    silent = [
        parallel_evidence("tensorflow"),
        # another model was built outside; the one that trains was not
        parallel_evidence("tensorflow", strategy=OUTSIDE),
        # one device: the scope would change nothing
        parallel_evidence(
            "tensorflow",
            strategy=replace(OUTSIDE, replicas=1),
            parallel={"replicas": 1},
            loop=SINGLE,
        ),
        # input-bound: more devices would wait as well
        parallel_evidence(
            "tensorflow",
            strategy=OUTSIDE,
            parallel={"replicas": 1},
            loop=SINGLE,
            resident=0.010,
            input=0.099,
        ),
        # a loop of the user's own may use the strategy by `strategy.run`
        parallel_evidence(
            "tensorflow",
            strategy=OUTSIDE,
            parallel={"replicas": 1},
            loop=replace(SINGLE, kind="iterator"),
        ),
    ]
    fires = [
        parallel_evidence(
            "tensorflow",
            strategy=OUTSIDE,
            parallel={"replicas": 1},
            loop=SINGLE,
            model=ModelFacts("model", "Sequential", compile_where=OTHER_SITE),
        ),
        parallel_evidence(
            "tensorflow",
            strategy=replace(OUTSIDE, replicas=4, scopes=1, where=OTHER_SITE),
            parallel={"replicas": 1},
            loop=SINGLE,
        ),
        # the model is built where no edit can reach
        parallel_evidence(
            "tensorflow",
            strategy=strategy(models_outside=(Site("train.py", 12),)),
            parallel={"replicas": 1},
            loop=SINGLE,
        ),
    ]
    examples = [
        Example(
            before="strategy = ▸tf.distribute.MirroredStrategy()◂\n"
            "model = ▸keras.Sequential([keras.layers.Dense(9)])◂\n"
            "model.summary()\n"
            '▸model.compile("adam", "mse")◂\n'
            "model.fit(data)\n",
            after="strategy = tf.distribute.MirroredStrategy()\n"
            "with strategy.scope():\n"
            "    model = keras.Sequential([keras.layers.Dense(9)])\n"
            "    model.summary()\n"
            '    model.compile("adam", "mse")\n'
            "model.fit(data)\n",
        ),
        Example(  # in a function that is called once
            before="def build():\n"
            "    inputs = Input((9,))\n"
            "    return ▸Model(inputs, Dense(1)(inputs))◂\n"
            "\n\n"
            "def main():\n"
            "    both = ▸MirroredStrategy()◂\n"
            "    model = build()\n"
            "    optimizer = Adam()\n"
            '    ▸model.compile(loss="mse", optimizer=optimizer)◂\n'
            "    model.fit(data)\n",
            after="def build():\n"
            "    inputs = Input((9,))\n"
            "    return Model(inputs, Dense(1)(inputs))\n"
            "\n\n"
            "def main():\n"
            "    both = MirroredStrategy()\n"
            "    with both.scope():\n"
            "        model = build()\n"
            "        optimizer = Adam()\n"
            '        model.compile(loss="mse", optimizer=optimizer)\n'
            "    model.fit(data)\n",
        ),
        Example(  # which compiles it as well
            before="strategy = ▸MirroredStrategy()◂\n"
            "\n\n"
            "def build():\n"
            "    model = ▸Model(inputs, outputs)◂\n"
            "    ▸model.compile(Adam(), loss)◂\n"
            "    return model\n"
            "\n\n"
            "build().fit(data)\n",
            after="strategy = MirroredStrategy()\n"
            "\n\n"
            "def build():\n"
            "    model = Model(inputs, outputs)\n"
            "    model.compile(Adam(), loss)\n"
            "    return model\n"
            "\n\n"
            "with strategy.scope():\n"
            "    build().fit(data)\n",
        ),
        *_left_alone(
            # its layers hold weights already
            "strategy = ▸MirroredStrategy()◂\n"
            "outputs = Dense(1)(inputs)\n"
            "model = ▸Model(inputs, outputs)◂\n"
            "▸model.compile(Adam(), loss)◂\n",
            # layers are added later
            "strategy = ▸MirroredStrategy()◂\n"
            "model = ▸Sequential()◂\n"
            "▸model.compile(Adam(), loss)◂\n"
            "model.add(Dense(9))\n",
            # the optimizer was made before: it cannot change its strategy
            "strategy = ▸MirroredStrategy()◂\n"
            "optimizer = Adam()\n"
            "model = ▸Sequential([Dense(9)])◂\n"
            "▸model.compile(optimizer, loss)◂\n",
            # the strategy comes later
            "model = ▸Sequential([Dense(9)])◂\n"
            "strategy = ▸MirroredStrategy()◂\n"
            "▸model.compile(Adam(), loss)◂\n",
            # nobody keeps it
            "▸MirroredStrategy()◂\nmodel = ▸Sequential([Dense(9)])◂\n"
            "▸model.compile(Adam(), loss)◂\n",
            # another strategy may be in the name
            "strategy = ▸MirroredStrategy()◂\n"
            "strategy = wrapped(strategy)\n"
            "model = ▸Sequential([Dense(9)])◂\n"
            "▸model.compile(Adam(), loss)◂\n",
        ),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a `fit` on one device of a model outside of the scope of several."""
        found = evidence.parallel.strategy
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
            rewritable=len(others) == 2 and all(site.exact for site in where),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put all from what builds the model to what compiles it in the scope."""
        put_in_scope(script, finding.where)

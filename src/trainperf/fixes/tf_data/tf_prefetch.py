"""A pipeline that works only while the model waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Example, Fix
from trainperf.fixes.common.cases import evidence, stage
from trainperf.fixes.common.pipeline import input_at_most, upper, version
from trainperf.fixes.common.words import SMALLEST_GAIN, ms, worth
from trainperf.model import Equivalence, Evidence, Finding, Framework, Stage

if TYPE_CHECKING:
    from trainperf.rewrite import Script

NO_OVERLAP = 0.85
"""The real step as a share of input plus resident from which no overlap is seen."""

REAL_SHARE = 0.10
"""Overlapping hides the smaller of input and step: it must be a tenth of the step."""

INJECTED_SINCE = (2, 13)
"""From this TensorFlow on, tf.data ends a pipeline with a prefetch of its own."""


BATCH = (stage("batch", 0.055),)


class Prefetch(Fix):
    """Prepare the next batch while the model computes.

    ## Why it is slow
    Without `prefetch` at its end the pipeline prepares a batch when the model asks
    for it, and rests while the model computes. A step takes the sum of both.

    ## What changes
    `.prefetch(tf.data.AUTOTUNE)` is appended: batches are prepared ahead of the step.
    Their content and order stay the same.
    TensorFlow 2.13 and later do this by themselves unless the dataset's options forbid it.

    ## When not to
    When memory is short and batches are large: some more of them are held.
    When the step runs on the CPU and keeps all cores busy: nothing is left to overlap.
    """

    category = "input"
    equivalence = Equivalence.EXACT

    silent = [
        # 2.13 and later inject it: reading the source misleads
        evidence(real=0.1, resident=0.05, input=0.05, stages_=(stage("batch", 0.05),)),
        # it is there
        evidence(
            real=0.1,
            resident=0.05,
            input=0.05,
            stages_=(stage("batch", 0.05), stage("prefetch", 0.0)),
            facts={"inject_prefetch": False},
        ),
        # the step already overlaps with the input
        evidence(
            real=0.06,
            resident=0.05,
            input=0.055,
            stages_=(stage("batch", 0.055),),
            facts={"inject_prefetch": False},
        ),
        # nothing to hide: the input takes next to nothing, or the step does
        evidence(
            real=0.1,
            resident=0.098,
            input=0.004,
            stages_=(stage("batch", 0.004),),
            facts={"inject_prefetch": False},
        ),
        evidence(
            real=0.1,
            resident=0.004,
            input=0.098,
            stages_=(stage("batch", 0.098),),
            facts={"inject_prefetch": False},
        ),
        # no dataset of the user's
        evidence(real=0.1, resident=0.05, input=0.05, facts={"inject_prefetch": False}),
        evidence(real=0.1, resident=None, input=0.05, stages_=(stage("batch", 0.05),)),
    ]
    fires = [
        evidence(
            real=0.1,
            resident=0.05,
            input=0.05,
            stages_=(stage("map", 0.04), stage("batch", 0.01)),
            facts={"inject_prefetch": False},
        ),
        evidence(
            real=0.1,
            resident=0.06,
            input=0.045,
            stages_=(stage("batch", 0.045),),
            framework=Framework("tensorflow", "2.10.1", keras="2.10.0"),
        ),
    ]
    tries_not = [
        evidence(real=0.1, resident=0.05, input=0.05, stages_=(stage("batch", 0.05),)),
        evidence(
            real=0.1,
            resident=0.05,
            stages_=(stage("prefetch", 0.0),),
            facts={"inject_prefetch": False},
        ),
        evidence(real=0.1, resident=0.1, stages_=BATCH, facts={"inject_prefetch": False}),
        evidence(real=0.1, resident=None, stages_=(), facts={"inject_prefetch": False}),
    ]
    tries = [
        evidence(real=0.1, resident=None, stages_=BATCH, facts={"inject_prefetch": False}),
        evidence(
            real=0.06,
            resident=0.05,
            input=0.055,
            stages_=BATCH,
            facts={"inject_prefetch": False},
        ),
    ]
    examples = [
        Example(
            before="import tensorflow as tf\n\nds = ▸files.map(load).batch(32)◂\n",
            after=(
                "import tensorflow as tf\n\n"
                "ds = files.map(load).batch(32).prefetch(tf.data.AUTOTUNE)\n"
            ),
        ),
        Example(
            before=(
                "import tensorflow as t\n\n\ndef data():\n    return ▸t.data.Dataset.range(9)◂\n"
            ),
            after=(
                "import tensorflow as t\n\n\n"
                "def data():\n    return t.data.Dataset.range(9).prefetch(t.data.AUTOTUNE)\n"
            ),
        ),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a step that takes the sum of input and model, with no prefetch at the end."""
        times = evidence.times
        real, resident, fed = times.real, times.resident, times.input
        if not evidence.input_bound or _prefetched(evidence):
            return None
        if real < NO_OVERLAP * (fed + resident) or min(fed, resident) < REAL_SHARE * real:
            return None
        last = _last(evidence.stages)
        bound = real / max(resident, fed)
        if last is None or last.op == "prefetch" or not worth(evidence, bound):
            return None
        text = (
            f"A step takes {ms(real)}: {ms(fed)} for the input and {ms(resident)} for the "
            f"model, one after the other, and the pipeline does not end in `prefetch`."
        )
        return self._finding(evidence, last, text, bound)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try a prefetch wherever neither the script nor tf.data has one at the end."""
        last, most = _last(evidence.stages), input_at_most(evidence)
        if last is None or last.op == "prefetch" or _prefetched(evidence):
            return None
        if most <= 1 + SMALLEST_GAIN:
            return None
        text = "The pipeline does not end in `prefetch`."
        return self._finding(evidence, last, text, min(2.0, most))

    def _finding(self, evidence: Evidence, last: Stage, text: str, bound: float | None) -> Finding:
        return self.finding(
            title="Input and model take turns",
            text=text,
            bound=bound,
            bound_basis=upper(evidence, "input and model fully overlapped"),
            where=(last.where,) if last.where else (),
            advice="End the pipeline with `.prefetch(tf.data.AUTOTUNE)`.",
            snippet="dataset = dataset.prefetch(tf.data.AUTOTUNE)",
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Append `prefetch` to the last call of the chain."""
        for site in finding.where:
            tf = script.module_name(site.file, "tensorflow")
            script.append_call(site, f".prefetch({tf}.data.AUTOTUNE)")


def _prefetched(evidence: Evidence) -> bool:
    """Whether tf.data prefetches by itself: by its version, unless the options are known."""
    option = evidence.facts.get("inject_prefetch")
    if isinstance(option, bool):
        return option
    return version(evidence) >= INJECTED_SINCE


def _last(stages: tuple[Stage, ...]) -> Stage | None:
    """The last stage of the user's own."""
    return next((stage for stage in reversed(stages) if stage.by_user), None)

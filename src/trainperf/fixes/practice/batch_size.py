"""A batch too small to keep the device busy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainperf.fixes import Example, Fix
from trainperf.fixes.common.cases import GPU, OTHER_SITE, SITE, evidence, probe, stage
from trainperf.fixes.common.seen import seen_in_call
from trainperf.fixes.common.step import (
    at_most,
    bound_by,
    bound_if_saved,
    gpu_busy,
    no_faster,
    saved_by,
    step_can_matter,
)
from trainperf.fixes.common.torch_cases import torch_evidence
from trainperf.fixes.common.words import percent, times, worth
from trainperf.fixes.practice._batch_size_edits import chosen, enlarge
from trainperf.fixes.practice._batch_size_words import adjusted
from trainperf.model import Equivalence, Evidence, Finding, Loop, Measure, PhaseUse, Probe

if TYPE_CHECKING:
    from trainperf.rewrite import Script

CPU_LEAST = 1.30
"""Gain in samples per second by doubling the batch from which it is told, on a CPU."""

GPU_LEAST = 1.15
"""The same on a GPU, where idle time confirms it."""

GPU_IDLE_BELOW = 0.70
"""Utilisation below which a GPU has room for more (the line of SageMaker's BatchSize rule)."""

LARGER = (2, 4)
"""How many times as large the batches are that are tried."""

BATCH = (stage("batch", where=OTHER_SITE, arguments={"batch_size": 8}),)
SMALL = Loop("fit", where=SITE, batch_size=8, epochs=10, epoch_steps=1000, input_kind="tf.data")


def _gpu(percent: float) -> tuple[PhaseUse, ...]:
    return (PhaseUse("resident", 20, gpu=({"index": 0, "sm_active": percent / 100},)),)


class LargerBatch(Fix):
    """Try a larger batch.

    ## Why it is slow
    Each step has a cost that does not depend on the batch: starting the kernels,
    updating the weights, the framework's own work. A small batch pays it often, and
    leaves most of a GPU's units without work.

    ## What changes
    Twice the batch takes less than twice the time, so an epoch gets shorter. But there
    are half as many updates in it, so the course of training changes. In Keras, a
    `steps_per_epoch` that does not follow is divided along: an epoch keeps its samples.

    ## When not to
    - Adjust the learning rate: a common rule is to scale it with the batch for SGD, and
      with its square root for Adam. Compare the accuracy, not only the speed.
    - Very large batches can generalise worse.
    - More memory is needed.
    """

    category = "model"
    usual = 1.5
    probed_by = "double_batch"
    equivalence = Equivalence.SEMANTICS
    framework = "any"

    silent = [
        evidence(),
        evidence(loop=SMALL, probes={"double_batch": probe(1.10)}),
        # the interval reaches below the line
        evidence(loop=SMALL, probes={"double_batch": probe(1.4, spread=0.1)}),
        # a GPU that is busy, and one whose utilisation is not known
        evidence(device=GPU, loop=SMALL, use=_gpu(95), probes={"double_batch": probe(1.5)}),
        evidence(device=GPU, loop=SMALL, probes={"double_batch": probe(1.5)}),
        # input-bound: a sample still has to be read
        evidence(loop=SMALL, resident=0.010, input=0.098, probes={"double_batch": probe(1.8)}),
        # PyTorch
        torch_evidence(),
        torch_evidence(probes={"double_batch": probe(1.2)}),
        torch_evidence(device=GPU, use=_gpu(95), probes={"double_batch": probe(1.5)}),
        torch_evidence(resident=0.010, input=0.098, probes={"double_batch": probe(1.8)}),
    ]
    fires = [
        evidence(loop=SMALL, probes={"double_batch": probe(1.7)}),
        evidence(device=GPU, loop=SMALL, use=_gpu(40), probes={"double_batch": probe(1.3)}),
        evidence(loop=Loop("call", where=SITE), probes={"double_batch": probe(1.7)}, models=()),
        torch_evidence(probes={"double_batch": probe(1.7)}),
        torch_evidence(device=GPU, use=_gpu(40), probes={"double_batch": probe(1.9)}),
        # a loop without a DataLoader
        torch_evidence(
            real=0.012,
            resident=None,
            input=None,
            loader=None,
            loop=Loop("update", where=SITE),
            probes={"double_batch": probe(1.7)},
        ),
    ]

    tries_not = [
        evidence(),
        evidence(loop=SMALL),
        evidence(loop=SMALL, stages_=(stage("batch", where=None, arguments={"batch_size": 8}),)),
        evidence(loop=SMALL, resident=0.010, input=0.1, stages_=BATCH),
        torch_evidence(loader=None),
    ]
    tries = [
        evidence(loop=SMALL, stages_=BATCH),
        evidence(loop=SMALL, stages_=BATCH, probes={"double_batch": probe(1.10)}),
        evidence(loop=Loop("fit", where=SITE, batch_size=32, input_kind="numpy")),
        torch_evidence(),
        torch_evidence(probes={"double_batch": probe(1.2)}),
    ]
    examples = [
        # how the batches are made is not seen
        Example.untouched("ds = ▸make(32)◂\n", {"batch_size": 32, "samples_per_step": 2}),
        Example.untouched(
            "▸model.fit(x, y, steps_per_epoch=n)◂\n", {"batch_size": 32, "samples_per_step": 2}
        ),
        Example(
            before="ds = ▸files.map(load).batch(32)◂.prefetch(1)\n",
            after="ds = files.map(load).batch(64).prefetch(1)\n",
            data={"batch_size": 32, "samples_per_step": 2},
        ),
        Example(
            before="▸model.fit(x, y, epochs=3)◂\n",
            after="model.fit(x, y, epochs=3, batch_size=64)\n",
            data={"batch_size": 32, "samples_per_step": 2},
        ),
        Example(
            before="▸model.fit(x, y, 16)◂\n",
            after="model.fit(x, y, 64)\n",
            data={"batch_size": 16, "samples_per_step": 4},
        ),
        # all that reads the constant changes along
        Example(
            before="batch_size = 32\nsteps = len(x) // batch_size\n"
            "loader = ▸DataLoader(x, batch_size=batch_size)◂\n",
            after="batch_size = 64\nsteps = len(x) // batch_size\n"
            "loader = DataLoader(x, batch_size=batch_size)\n",
            data={"batch_size": 32, "samples_per_step": 2},
        ),
        Example(
            before="""\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()
loader = ▸DataLoader(x, args.batch_size)◂
""",
            after="""\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
args = parser.parse_args()
loader = DataLoader(x, args.batch_size)
""",
            data={"batch_size": 32, "samples_per_step": 2},
        ),
        # a dictionary of what the loader is given
        Example(
            before="how = dict(batch_size=32)\nif cuda:\n    how.update(pin_memory=True)\n"
            "loader = ▸DataLoader(x, **how)◂\n",
            after="how = dict(batch_size=64)\nif cuda:\n    how.update(pin_memory=True)\n"
            "loader = DataLoader(x, **how)\n",
            data={"batch_size": 32, "samples_per_step": 2},
        ),
        # the command gave another, or the default's own value
        Example(
            before="""\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()
ds = ▸ds.batch(args.batch_size)◂
""",
            after="""\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
args = parser.parse_args()
ds = ds.batch(2 * args.batch_size)
""",
            data={"batch_size": 128, "samples_per_step": 2, "given": ["--batch-size"]},
        ),
        # an epoch keeps its samples, where `fit` is told its steps
        Example(
            before="▸model.fit(x, y, batch_size=16, steps_per_epoch=100)◂\n",
            after="model.fit(x, y, batch_size=32, steps_per_epoch=50)\n",
            data={"batch_size": 16, "samples_per_step": 2},
        ),
        Example(
            before="ds = ▸ds.repeat().batch(32)◂\n▸model.fit(ds, steps_per_epoch=500)◂\n",
            after="ds = ds.repeat().batch(128)\nmodel.fit(ds, steps_per_epoch=125)\n",
            data={"batch_size": 32, "samples_per_step": 4},
        ),
        Example(
            before="BATCH = 32\nds = ▸ds.batch(BATCH)◂\nsteps = len(x) // BATCH\n"
            "▸model.fit(ds, steps_per_epoch=steps)◂\n",
            after="BATCH = 64\nds = ds.batch(BATCH)\nsteps = len(x) // BATCH\n"
            "model.fit(ds, steps_per_epoch=steps)\n",
            data={"batch_size": 32, "samples_per_step": 2},
        ),
        Example(
            before="BATCH = 32\nds = ▸ds.batch(BATCH)◂\nSTEPS = 500\n"
            "▸model.fit(ds, steps_per_epoch=STEPS)◂\n",
            after="BATCH = 64\nds = ds.batch(BATCH)\nSTEPS = 500\n"
            "model.fit(ds, steps_per_epoch=STEPS // 2)\n",
            data={"batch_size": 32, "samples_per_step": 2},
        ),
        Example(
            before="""\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--steps", type=int, default=500)
args = parser.parse_args()
ds = ▸ds.batch(args.batch_size)◂
▸model.fit(ds, steps_per_epoch=args.steps, epochs=2)◂
""",
            after="""\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--steps", type=int, default=500)
args = parser.parse_args()
ds = ds.batch(args.batch_size)
model.fit(ds, steps_per_epoch=args.steps // 2, epochs=2)
""",
            data={"batch_size": 32, "samples_per_step": 2},
        ),
        Example(
            before="BATCH = 32\nds = ▸ds.batch(BATCH)◂\n"
            "▸model.fit(ds, steps_per_epoch=ds.cardinality())◂\n",
            after="BATCH = 64\nds = ds.batch(BATCH)\n"
            "model.fit(ds, steps_per_epoch=ds.cardinality())\n",
            data={"batch_size": 32, "samples_per_step": 2},
        ),
        Example(
            before="ds = ▸ds.batch(per_replica * replicas)◂\n"
            "▸model.fit(ds, steps_per_epoch=n // 8)◂\n",
            after="ds = ds.batch(2 * (per_replica * replicas))\n"
            "model.fit(ds, steps_per_epoch=(n // 8) // 2)\n",
            data={"batch_size": 32, "samples_per_step": 2},
        ),
        # nobody knows what it takes into account
        Example.untouched(
            "BATCH = 32\nds = ▸ds.batch(BATCH)◂\n▸model.fit(ds, steps_per_epoch=steps())◂\n",
            {"batch_size": 32, "samples_per_step": 2},
        ),
        Example(
            before="ds = ▸ds.batch(per_replica * replicas)◂\n",
            after="ds = ds.batch(2 * (per_replica * replicas))\n",
            data={"batch_size": 32, "samples_per_step": 2},
        ),
    ]

    def decided_by(self, made: Probe, finding: Finding, evidence: Evidence) -> bool:
        """Return whether it ran so large a batch; what comes once a step is then half as often."""
        twice = finding.data.get("samples_per_step") == 2
        return twice and no_faster(evidence.times.real, made, made.base_s)

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a step that does clearly more samples per second with twice the batch."""
        probe = evidence.probe("double_batch")
        busy = gpu_busy(evidence)
        idle = ""
        if evidence.device.kind == "GPU":
            if busy is None or busy >= GPU_IDLE_BELOW or probe.low < GPU_LEAST:
                return None
            idle = f", and the GPU was busy for {percent(busy)} of the step"
        elif probe.low < CPU_LEAST:
            return None
        if not worth(evidence, bound_by(evidence, probe)):
            return None
        made = chosen(evidence)
        larger = probe if made is None else replace(probe, ratio=_by_most(probe.ratio))
        saved = saved_by(evidence, larger) + _around(evidence, 2 if made is None else LARGER[-1])
        bound = bound_if_saved(evidence, saved)
        text = (
            f"With twice the batch, the step did {times(probe.ratio)} as many samples per "
            f"second in this run{idle}."
        )
        basis = "samples per second, measured by a probe of the step in this run"
        if made is not None:
            basis = f"samples per second with {LARGER[-1]} times the batch, by a probe with twice"
        title = "The batch{of} is too small to keep the device busy"
        return self._finding(evidence, title, text, bound, basis)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try larger batches wherever the size is written down."""
        if chosen(evidence) is None or not step_can_matter(evidence):
            return None
        probe = evidence.probes.get("double_batch")
        probed = isinstance(probe, Probe)
        ratio = _by_most(probe.high) if isinstance(probe, Probe) else LARGER[-1]
        most = at_most(evidence, ratio, rest=LARGER[-1])
        basis = f"samples per second with {LARGER[-1]} times the batch, "
        basis += "by a probe with twice" if probed else "which takes as long as one: not probed"
        text = "Each step has a cost that does not depend on the batch."
        return self._finding(evidence, "The batch{of} may be larger", text, most, basis)

    def _finding(
        self, evidence: Evidence, title: str, text: str, bound: float | None, basis: str
    ) -> Finding:
        size = evidence.loop.batch_size
        made = chosen(evidence)
        larger = " or ".join(str(times * size) for times in LARGER) if size else "twice as many"
        where = made[0] if made else evidence.loop.where
        fit = evidence.loop.where if made is not None and evidence.loop.kind == "fit" else None
        return self.finding(
            title=title.format(of=f" of {size}" if size else ""),
            text=text,
            bound=bound,
            bound_basis=basis,
            where=tuple(dict.fromkeys(one for one in (where, fit) if one)),
            advice=f"Try a batch of {larger} samples, with the learning rate adjusted, and compare "
            f"the accuracy reached. {adjusted(evidence, size, LARGER)}",
            snippet=f"batch_size = {2 * size}" if size else "batch_size = 2 * batch_size",
            rewritable=made is not None and made[0].exact,
            data=_data(evidence, made[1]) if made else {},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Multiply the batch size where it is chosen."""
        fit = finding.where[1] if len(finding.where) > 1 else None
        enlarge(script, finding.where[0], finding.data, fit)


def _data(evidence: Evidence, size: int) -> dict[str, Any]:
    """Return the data of the edit, and of its trials, which compare samples, not steps."""
    return {
        "batch_size": size,
        **seen_in_call(evidence, batch_size=size),
        "variants": [{"batch": times * size, "samples_per_step": times} for times in LARGER],
        "samples_per_step": LARGER[0],
    }


def _around(evidence: Evidence, times: int) -> float:
    """Seconds by which what stands around the model's step gets shorter, for as many samples."""
    real, resident = evidence.times.real, evidence.times.resident_
    around = real - resident.seconds if isinstance(resident, Measure) else 0.0
    return max(0.0, around) * (1 - 1 / times)


def _by_most(ratio: float) -> float:
    """Return the gain in samples of the largest batch, from that of twice the batch.

    A step takes a + b·n for n samples: where a part of it does not depend on the batch.
    """
    grows = max(0.0, 2 / ratio - 1)  # b, where a + b is the step as it is
    return LARGER[-1] / (1 + (LARGER[-1] - 1) * grows)

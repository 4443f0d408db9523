"""The cases of `batch_size`."""

from __future__ import annotations

from fixes.cases.common.cases import GPU, OTHER_SITE, SITE, evidence, probe, stage
from fixes.cases.common.torch_cases import torch_evidence
from rewriting import Example
from trainperf.model import Loop, PhaseUse

BATCH = (stage("batch", where=OTHER_SITE, arguments={"batch_size": 8}),)

SMALL = Loop("fit", where=SITE, batch_size=8, epochs=10, epoch_steps=1000, input_kind="tf.data")


def _gpu(percent: float) -> tuple[PhaseUse, ...]:
    return (PhaseUse("resident", 20, gpu=({"index": 0, "sm_active": percent / 100},)),)


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
        after="BATCH = 64\nds = ds.batch(BATCH)\nmodel.fit(ds, steps_per_epoch=ds.cardinality())\n",
        data={"batch_size": 32, "samples_per_step": 2},
    ),
    Example(
        before="ds = ▸ds.batch(per_replica * replicas)◂\n▸model.fit(ds, steps_per_epoch=n // 8)◂\n",
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

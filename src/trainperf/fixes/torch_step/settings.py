"""Settings of PyTorch's process and of its optimizers, each a line, an argument or a variable."""

from __future__ import annotations

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import UNTRIED, Cause, Saving, Unpriced
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.trainers import seen_in_call
from trainperf.fixes.common.words import at, percent, probe_said, recorded_site, worth
from trainperf.fixes.rows import Callee, SetArgument, SetFlag, SetVariable
from trainperf.fixes.torch_step._step import (
    CONVOLUTIONS,
    OfPass,
    compute_seconds,
    count_of,
    kernel_seconds,
    part_said,
    part_seconds,
    passes_said,
    process_site,
    taken_probe,
)
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.model.torch import Part
from trainperf.rewrite import Script

OPTIMIZER = Callee(defaults={"fused": None, "foreach": None})
"""Their default leaves the choice to PyTorch."""

CLEARLY_FUSED = 1.5
"""From this ratio of its probe on a fused update may leave nothing of what it takes in a step: the
probe repeats it in warm caches (1.43 times as fast was measured where its end was 1.17)."""

MOST_OF_A_STEP = 0.5
"""Share of a step that kernels must take before trying others is proposed unmeasured."""

MODES = {
    "anomaly": (
        "Anomaly detection",
        "Anomaly detection keeps the stack of each operation, and looks for NaN in the backward.",
        "torch.autograd.set_detect_anomaly(False)",
    ),
    "profiler": (
        "The profiler",
        "The profiler records each operation of the steps.",
        "# take the profiler out, or give it a schedule of a few steps",
    ),
    "deterministic": (
        "Deterministic mode",
        "Deterministic algorithms rule out the fastest kernels of the GPU, and fill new memory.",
        "torch.use_deterministic_algorithms(False)",
    ),
}
"""The modes by their flags: their names, what they do, and the code that turns them off."""

SWITCHES = ("set_detect_anomaly", "use_deterministic_algorithms")
"""Functions whose first argument, `mode`, turns a mode on or off."""
MODE = SetArgument("mode", "False", Callee(positions={"mode": 0}))

LEAST_DENORMAL = 0.01
"""Share of denormal numbers from which they are told of; our choice: an operation on one takes
some hundred times the cycles of another (Intel's and AMD's optimisation guides)."""

WITH_DENORMALS: dict[str, tuple[Part, ...]] = {
    "optimizer": ("optimizer",),
    "weights": ("forward", "backward", "optimizer"),
    "gradients": ("backward", "optimizer"),
}
"""The parts of a step that compute with what holds them."""

WHOSE = {
    "optimizer": "of the optimizer's state",
    "weights": "of the weights",
    "gradients": "of the gradients",
}


class TorchFusedOptimizer(Fix):
    """Update all weights in one fused kernel: `fused=True`.

    Why slow: On a CPU an optimizer of `torch.optim` walks over the weights tensor by tensor, with
    a kernel for each operation of its formula; on a GPU it takes tensors together (`foreach`),
    still with one kernel per operation. Each reads and writes weights and moments once more.
    Changes: `fused=True` makes the whole update in one pass over each weight. The formula is the
    same; rounding differs in the last digits. `foreach=…` goes, because it excludes it.
    When not:
    - When gradients must flow through the update itself (`differentiable=True`).
    - Adam, AdamW, SGD and Adagrad have it; a few of their options and devices do not.
    """

    usual = 1.15
    equivalence = Equivalence.NUMERICS
    edit = SetArgument("fused", "True", OPTIMIZER, excludes="foreach")

    def look(self, evidence: Evidence) -> Cause | None:
        """Find optimizers that could be fused."""
        slow = [
            optimizer
            for optimizer in evidence.torch.optimizers
            if optimizer.can_fuse and optimizer.builtin and optimizer.fused is not True
        ]
        if not slow:
            return None
        dearest = max(slow, key=lambda optimizer: optimizer.parameters)
        where = tuple(optimizer.where for optimizer in slow if optimizer.where is not None)
        grouped = evidence.device.kind == "GPU" and dearest.foreach is not False
        given = [{"fused": made.fused, "foreach": made.foreach} for made in slow]
        alike = {
            name: value
            for name, value in given[0].items()
            if all(arguments[name] == value for arguments in given)
        }
        probe = taken_probe(evidence, "fused")
        clear = probe is not None and probe.low >= CLEARLY_FUSED
        takes = part_said(evidence, "Updating the weights takes", "optimizer")
        return Cause(
            title=f"{dearest.cls} is not fused",
            text=f"{dearest.cls} updates {dearest.tensors} tensors, "
            f"{'a kernel per operation' if grouped else 'one after the other'}.{takes}"
            f"{probe_said(evidence, 'fused', 'With fused=True the same update')}",
            saves=Saving(
                "at most the whole of the optimizer's part of the step",
                lambda: part_seconds(evidence, "optimizer"),
                probe="fused",
                most=(lambda: part_seconds(evidence, "optimizer")) if clear else None,
            ),
            where=where,
            snippet=f"optimizer = torch.optim.{dearest.cls}(model.parameters(), ..., fused=True)",
            data=seen_in_call(evidence, **alike),
            rewritable=len(where) == len(slow) and all(site.exact for site in where),
        )


class TorchCudnnBenchmark(OfPass):
    """Let cuDNN time its convolution kernels and keep the fastest.

    Why slow: cuDNN has several kernels for each convolution. By default it chooses one by rule of
    thumb, which need not be the fastest for these sizes on this GPU.
    Changes: `torch.backends.cudnn.benchmark = True`: for each new shape all kernels are timed
    once, then the fastest is used. It rounds otherwise, and which one wins may change from run to
    run.
    When not:
    - Images of changing size: each new shape is timed anew, for a second or so.
    - When runs must repeat bit for bit, or GPU memory is nearly full: kernels need work space.
    """

    probed_by = "cudnn_benchmark"
    equivalence = Equivalence.NUMERICS
    edit = SetFlag("torch.backends.cudnn.benchmark = True", unless=("cudnn.benchmark",))

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a GPU that convolves batches of one shape with kernels chosen by rule."""
        torch = evidence.torch
        if evidence.device.kind != "GPU" or torch.model.shapes != 1:
            return None
        layers = count_of(torch.model, CONVOLUTIONS)
        set_otherwise = torch.flag("cudnn_benchmark") is not False or torch.flag("deterministic")
        if set_otherwise or not layers:
            return None
        saves: Saving | Unpriced = Saving(UNTRIED, probe=self.probed_by)
        if taken_probe(evidence, self.probed_by) is None and _kernels_matter(evidence):
            saves = Unpriced("only trying tells what another kernel takes")
        where = process_site(evidence)
        return Cause(
            title="cuDNN chooses its kernels by rule of thumb",
            text=f"All batches seen have one shape, {torch.model.cls} has {layers} convolution "
            f"layer{'s' if layers > 1 else ''}, and cudnn.benchmark is off."
            f"{probe_said(evidence, self.probed_by, 'With the fastest kernels the same pass')}",
            saves=saves,
            where=(where,) if where else (),
            snippet="torch.backends.cudnn.benchmark = True",
        )


def _kernels_matter(evidence: Evidence) -> bool:
    try:
        kernels = kernel_seconds(evidence)
        large = kernels >= MOST_OF_A_STEP * evidence.times.real
        return large and worth(evidence, bound_if_saved(evidence, kernels))
    except NotMeasured:
        return False


class TorchDebugModes(Fix):
    """Turn the debug modes off.

    Why slow: Anomaly detection walks the stack at every operation and checks every gradient for
    NaN, a profiler writes an event, deterministic algorithms leave the fastest kernels of a GPU
    out.
    Changes: `set_detect_anomaly(True)` and `use_deterministic_algorithms(True)` get `False`;
    `detect_anomaly()` becomes `set_detect_anomaly(False)`. Without determinism, two runs on a GPU
    differ in the last digits.
    When not:
    - While you look for a NaN, or for the cause of a difference between two runs.
    - Where results must be the same bit by bit. A profiler may have a schedule of a few steps.
    """

    category = "host"
    usual = 2.0

    def look(self, evidence: Evidence) -> Cause | None:
        """Find modes that are on during the steps."""
        flags = evidence.torch.flags
        on = [name for name in MODES if flags.get(name) is True]
        if not on or (evidence.device.kind != "GPU" and on == ["deterministic"]):
            return None
        basis = "no time left in forward and backward"
        probe = taken_probe(evidence, "anomaly")
        if on == ["anomaly"] and probe is not None and not (probe.vague and probe.high > 1):
            saves: Saving | Unpriced = Saving(
                basis, lambda: compute_seconds(evidence), probe="anomaly"
            )
        else:
            saves = _of_a_mode(evidence, basis, 1.0 if "anomaly" in on else None)
        sites = {name: site for name in on if (site := recorded_site(flags.get(f"{name}_where")))}
        edited = tuple(site for name, site in sites.items() if name != "profiler")
        names, works, off = zip(*(MODES[name] for name in on), strict=True)
        place = at(next(iter(sites.values()), None))
        return Cause(
            title=f"{names[0]}{''.join(f', {name[0].lower()}{name[1:]}' for name in names[1:])} "
            f"{'is' if len(on) == 1 else 'are'} on{f' ({place})' if place else ''}",
            text=f"{' '.join(works)}{passes_said(evidence)}",
            saves=saves,
            where=edited or tuple(sites.values()),
            snippet="\n".join(off),
            equivalence=Equivalence.NUMERICS if "deterministic" in sites else None,
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
            elif callee in SWITCHES:
                MODE.set(script, site, finding)
            else:
                raise CannotRewrite("the mode is turned on by a library")


def _of_a_mode(evidence: Evidence, basis: str, share: float | None) -> Saving | Unpriced:
    """What turning off a mode saves: `share` of forward and backward, None if that is no bound.

    It is told without a price where they were not timed.
    """
    try:
        if share is not None:
            return Saving(basis, share * compute_seconds(evidence))
    except NotMeasured:
        pass
    return Unpriced("not measured", of="step")


class TorchLaunchBlocking(Fix):
    """Run without `CUDA_LAUNCH_BLOCKING`.

    Why slow: With `CUDA_LAUNCH_BLOCKING=1`, Python waits for each kernel to end before it starts
    the next. Without it, Python runs ahead and the GPU goes from kernel to kernel.
    Changes: The variable is 0 for the command. The kernels and their results are the same.
    When not:
    - While you look for the line at which a CUDA error occurs.
    - A script that sets the variable itself must be changed there.
    """

    category = "environment"
    usual = 1.5
    equivalence = Equivalence.ENVIRONMENT
    edit = SetVariable({"CUDA_LAUNCH_BLOCKING": "0"})

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a GPU whose kernels are waited for one by one.

        Python and the GPU then take turns, so running side by side saves at most half.
        """
        if evidence.device.kind != "GPU" or evidence.torch.flag("launch_blocking") is not True:
            return None
        basis = "Python and the GPU side by side in forward and backward"
        return Cause(
            title="CUDA_LAUNCH_BLOCKING is set",
            text="Python waits for each kernel to end before it starts the next."
            f"{passes_said(evidence)}",
            saves=_of_a_mode(evidence, basis, 0.5),
            advice="Unset CUDA_LAUNCH_BLOCKING: it is meant for finding faults.",
            snippet="unset CUDA_LAUNCH_BLOCKING",
        )


class TorchFlushDenormal(Fix):
    """Have the CPU take denormal numbers for zero: `torch.set_flush_denormal(True)`.

    Why slow: Below 1e-38 a float32 has no full precision any more. A CPU computes with such
    numbers in microcode, some hundred times as slowly. Moments of weights that get no gradient,
    pruned weights and signals that decay pass through that range for thousands of steps.
    Changes: Numbers below 1.2e-38 become zero. Whatever adds them to another number rounds them
    away anyway.
    When not: Where such numbers are divided by each other, or are multiplied back into range.
    """

    counted = True
    usual = 2.0
    equivalence = Equivalence.NUMERICS
    edit = SetFlag("torch.set_flush_denormal(True)", unless=("set_flush_denormal",))

    def look(self, evidence: Evidence) -> Cause | None:
        """Find denormal numbers in what a step computes with on a CPU."""
        shares = evidence.torch.flag("denormal")
        many = {kind: share for kind, share in shares.items() if share >= LEAST_DENORMAL}
        if evidence.device.kind != "CPU" or not many:
            return None
        seen = [f"{percent(share)} {WHOSE[kind]}" for kind, share in many.items()]
        parts: tuple[Part, ...] = tuple(
            dict.fromkeys(p for kind in many for p in WITH_DENORMALS[kind])
        )
        where = process_site(evidence)
        return Cause(
            title="The CPU computes with denormal numbers",
            text=f"{' and '.join(seen)} are so close to zero that they have no full precision.",
            saves=Saving(
                "at most all of the parts that compute with them",
                lambda: part_seconds(evidence, *parts),
            ),
            where=() if where is None else (where,),
            snippet="torch.set_flush_denormal(True)",
        )

"""The GPUs of a run: whether the framework uses them, their clocks, and who else has them."""

from __future__ import annotations

import re

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.step import step_seconds
from trainperf.fixes.common.words import percent
from trainperf.model import Evidence, Gpu
from trainperf.recording.machine.machine import APPLICATION_CLOCKS


def gpus_of_run(evidence: Evidence) -> list[Gpu]:
    """Return the GPUs the run computes on, all ranks' on this host, sampled or not.

    Raises `NotMeasured` where it is not on a GPU, or it is not known on which.
    """
    if evidence.device.kind != "GPU":
        raise NotMeasured("the script does not compute on a GPU")
    indices = {gpu.index for gpu in evidence.device.used}
    if None in indices:
        raise NotMeasured("which of the GPUs the script uses is not known")
    indices.update(evidence.device.of_others)
    return [gpu for gpu in evidence.machine.gpus if gpu.index in indices]


LEAST_SAMPLES = 3
"""Samples that a phase must have for its mean clock to be worth a word; our choice."""

LEAST_SHARES = {
    "hardware thermal slowdown": 0.1,
    "software thermal slowdown": 0.1,
    "power brake": 0.1,
    "hardware slowdown": 0.1,
    APPLICATION_CLOCKS: 0.5,
}
"""Reasons of a driver, with the share of the samples from which one counts; our choice.

The power cap is not among them: a GPU that works as hard as its board permits reports it.
"""


class GpuThrottled(Fix):
    """Let the GPU run at its full clock: cool it, give it power, set its clocks.

    Why slow: A GPU that gets too hot, or whose power supply gives out, lowers its clock to protect
    itself: every kernel takes longer by as much. On some machines the application clocks, which a
    GPU aims at under load, are set far below what the card can do. The driver tells the reason.
    Changes: Nothing in the script: the machine is repaired, or another one taken. On a cloud
    machine, stop the instance and start it again: it comes up elsewhere. `nvidia-smi -ac` sets the
    clocks, as root, until the driver is loaded anew.
    When not: A GPU at its power cap is well: it works as hard as its board permits. Clocks may be
    set on purpose, for even times or to save power.
    """

    counted = True

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the GPU furthest below its clock for one of these reasons."""
        try:
            phase = evidence.phase("resident")
        except NotMeasured:
            phase = evidence.phase("real")
        uses = {use["index"]: use for use in phase.gpu}
        slowed = []
        for gpu in gpus_of_run(evidence):
            use = uses.get(gpu.index, {})
            given = use.get("throttle_shares") or {}
            shares = {
                reason: given[reason]
                for reason, least in LEAST_SHARES.items()
                if given.get(reason, 0) >= least
            }
            clock, highest = use.get("sm_clock_mhz"), gpu.max_sm_clock_mhz
            sampled = use.get("samples", LEAST_SAMPLES) >= LEAST_SAMPLES
            if clock is not None and highest and sampled and shares:
                slowed.append((clock / highest, highest, gpu, shares))
        if not slowed:
            return None
        speed, highest, gpu, shares = min(slowed, key=lambda card: card[0])
        reason = max(shares, key=lambda name: (shares[name], name))
        reasons = ", ".join(f"{name} ({percent(shares[name])})" for name in sorted(shares))
        set_to = gpu.application_clock_mhz
        known = "" if set_to is None else f" Its application clocks are {set_to} MHz."
        return Cause(
            title=f"GPU {gpu.index} ({gpu.name}) is slowed down: {reason}",
            text=f"While it trained, its clock was {speed * highest:.0f} of {highest} MHz. In so "
            f"many of the samples the driver gave as the reason: {reasons}.{known}",
            saves=Saving(  # the memory's clock is another one
                "every kernel at the GPU's highest clock", step_seconds(evidence) * (1 - speed)
            ),
            advice="Set its application clocks to the highest, unless they are low on purpose."
            if reason == APPLICATION_CLOCKS
            else "Look at its cooling and its power supply, or take another machine.",
            snippet=f"nvidia-smi -i {gpu.index} -q -d TEMPERATURE,POWER,PERFORMANCE,CLOCK\n"
            f"# clocks that it has: -q -d SUPPORTED_CLOCKS; the highest one, memory and SMs\n"
            f"sudo nvidia-smi -i {gpu.index} -ac MEMORY,{highest}",
        )


LEAST_BUSY = 0.05
"""Share of the time from which others keep a GPU busy; below, they only hold memory."""


class GpuShared(Fix):
    """Leave the GPU to this run alone.

    Why slow: Another process computes on the same GPU. The two take turns, and each waits for the
    other's kernels.
    Changes: The other process is ended, or one of the two goes to another GPU
    (`CUDA_VISIBLE_DEVICES`).
    When not: Where the GPU is shared on purpose, and both jobs together are what counts.
    """

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the GPU that others kept busiest before the run started."""
        parallel = evidence.parallel_
        if parallel is not None and len(parallel.processes) > 1:  # they may be its other ranks
            return None
        shared = [gpu for gpu in gpus_of_run(evidence) if gpu.other_processes]
        gpu = max(shared, key=lambda card: card.busy_before or 0.0, default=None)
        if gpu is None or (gpu.busy_before or 0.0) < LEAST_BUSY:
            return None
        busy, others = gpu.busy_before or 0.0, gpu.other_processes or 0
        # Kernels take turns: with n others this run gets one turn of n + 1 at least.
        lost = step_seconds(evidence) * min(busy, others / (others + 1))
        return Cause(
            title=f"GPU {gpu.index} ({gpu.name}) is shared with other processes",
            text=f"Before the run started, other processes ({others}) kept it busy for "
            f"{percent(busy)} of the time.",
            saves=Saving("as many turns on the GPU as the others took before the run", lost),
            snippet=f"nvidia-smi -i {gpu.index} "
            "--query-compute-apps=pid,process_name,used_memory --format=csv\n"
            "# another GPU, if there is one\nexport CUDA_VISIBLE_DEVICES=1",
        )


class GpuBuild(Fix):
    """Install the build of the framework that fits the driver and the GPU, and let it start.

    Why slow: A build without CUDA, or one for a newer CUDA than the driver supports, computes on
    the CPU while the GPU stands idle; so does one whose CUDA does not start, or from which the GPU
    is hidden.
    Changes: Another build of the same release, or a newer driver. Rounding differs from the CPU.
    When not: Where the CPU is used on purpose, as the model is small or the GPU is another job's.
    """

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a build that leaves the GPU idle."""
        framework, gpus = evidence.framework, evidence.machine.gpus
        why = "" if not gpus or evidence.device.kind == "GPU" else _why_idle(evidence)
        if not why:
            return None
        name = "PyTorch" if framework.name == "torch" else "TensorFlow"
        return Cause(
            title=f"{name} computes on the CPU although a GPU is there",
            text=f"The driver sees {gpus[0].name}. {why}",
            saves=Unpriced("not measured: no step ran on the GPU"),
            advice=f"Do what `trainperf doctor` says of {name} and the GPU.",
            snippet="nvidia-smi",
        )


def _why_idle(evidence: Evidence) -> str:
    """Why the framework does not use the GPU, as a sentence; "" where that is not known."""
    framework, facts, driver = evidence.framework, evidence.facts, evidence.machine.driver_cuda
    if framework.built_with_cuda is None:
        return ""
    if not framework.built_with_cuda:
        return f"This build ({framework.version}) is one without CUDA."
    if framework.name == "torch":
        cuda = (facts.get("gpu_build") or {}).get("cuda")
        needs, offers = version(cuda), version(driver)
        # A driver runs programs of its own CUDA major version and of older ones ("CUDA
        # Compatibility" in NVIDIA's documentation).
        if needs and offers and needs[0] > offers[0]:
            return f"PyTorch is built for CUDA {cuda}; the driver supports {driver} at most."
        failure = str(facts.get("cuda_failed") or "").rstrip(".")
        return f"CUDA did not start: {failure}." if failure else ""
    hidden = facts.get("cuda_visible_devices")
    if hidden in ("", "-1"):
        return f'CUDA_VISIBLE_DEVICES is "{hidden}", which hides every GPU.'
    return "Its CUDA libraries are missing, or the script hides the GPU (set_visible_devices)."


def version(text: str | None) -> tuple[int, int] | None:
    """Return the first two numbers of a version ("12.4" → 12, 4), None without any."""
    numbers = re.findall(r"\d+", text or "")
    return (int(numbers[0]), int([*numbers, "0"][1])) if numbers else None

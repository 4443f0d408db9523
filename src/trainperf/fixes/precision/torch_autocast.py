"""A PyTorch model that computes in float32 where 16 bits are faster."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import PROBE_LEAST, bound_if_saved, gpu_busy, step_seconds
from trainperf.fixes.common.trainers import seen_in_call
from trainperf.fixes.common.words import ms, percent, times, worth
from trainperf.fixes.precision._autocast_edits import put_autocast, put_scaler, turn_on
from trainperf.fixes.precision.torch_matmul_precision import capability, peaks, sixteen_bit_ratio
from trainperf.fixes.torch_step._step import (
    CONVOLUTIONS,
    DENSE,
    PROBED,
    RECURRENT,
    compute_seconds,
    count_of,
    kernel_seconds,
    pass_decides,
    taken_probe,
    to_try,
)
from trainperf.model import Equivalence, Evidence, Finding, Probe, Site
from trainperf.rewrite import Script

TENSOR_CORES_FROM = 7.0
"""Compute capability of Volta, the first with tensor cores (16-bit floats only)."""

BFLOAT16_FROM = 8.0
"""Compute capability of Ampere, the first with bfloat16 in its tensor cores."""

BUSY = 0.50
"""Utilisation of the GPU below which starting the kernels, not running them, takes time."""


class Autocast(Fix):
    """Compute in 16 bits where it is safe, with `torch.autocast` around the forward.

    ## Why it is slow
    Tensor cores of a GPU, and newer CPUs (AMX, AVX-512 BF16), multiply 16-bit numbers
    several times as fast as 32-bit ones, and 16-bit activations take half the memory
    traffic. PyTorch computes in float32 until it is told otherwise.

    ## What changes
    Matrix products and convolutions run in bfloat16 (float16 before Ampere), losses and
    sums in float32; weights stay float32. Losses differ by rounding, a few parts in a
    thousand. float16 also needs a `GradScaler`: it scales the loss so that small gradients
    do not vanish, and skips the updates in which one overflows.

    ## When not to
    - Outputs are bfloat16 then: `.numpy()` wants `.float()` before it.
    - Where a loss loses digits by subtracting near equals: physics, solvers.
    """

    category = "model"
    usual = 1.5
    probed_by = "autocast"
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def decided_by(self, made: Probe, finding: Finding, evidence: Evidence) -> bool:
        """Return whether it ran the pass in this precision: it never scales the loss."""
        same = made.detail["dtype"] == finding.data["dtype"] and not finding.data["scaler"]
        return same and pass_decides(evidence, made)

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a float32 model whose forward and backward are faster in 16 bits."""
        dtype = _dtype(evidence)
        if dtype is None or not _computes_in_float32(evidence):
            return None
        found = _gain(evidence, dtype)
        if found is None or not worth(evidence, found[0]):
            return None
        title = f"The model computes in float32 on a {evidence.device.kind} "
        return self._finding(evidence, f"{title}that is faster in {dtype}", dtype, *found)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try any float32 model; on a CPU without instructions for bfloat16 last of all."""
        dtype, slow = _dtype(evidence), False
        if evidence.device.kind == "CPU":
            dtype, slow = "bfloat16", evidence.torch.flags.get("bf16_cpu") is False
        if dtype is None or not _computes_in_float32(evidence):
            return None
        measured = taken_probe(evidence, "autocast")
        bound, basis = to_try(evidence, "autocast")
        if measured is None and slow:
            bound, basis = 1.0, "this CPU has no instructions for bfloat16"
        seen = _seen(measured, dtype) if measured is not None and bound is not None else ""
        return self._finding(
            evidence, "The model computes in float32 all through", dtype, bound, basis, seen
        )

    def _finding(
        self,
        evidence: Evidence,
        title: str,
        dtype: str,
        bound: float | None,
        basis: str,
        seen: str,
    ) -> Finding:
        calls, model = evidence.torch.calls, evidence.torch.model
        assert calls is not None
        device = "cuda" if evidence.device.kind == "GPU" else "cpu"
        where = _where(evidence, dtype)
        scaler = 'amp.GradScaler("cuda")' if dtype == "float16" else ""
        return self.finding(
            title=title,
            text=f"{model.cls} is float32 and its forward runs outside autocast. {seen}".strip(),
            bound=bound,
            bound_basis=basis,
            where=where or tuple(site for site in (calls.forward or model.call,) if site),
            advice="Put forward and loss under `torch.autocast`, the backward outside."
            + (" Scale the loss with a `GradScaler`." if scaler else ""),
            snippet=_snippet(device, dtype, scaler),
            rewritable=bool(where),
            data={
                "device": device,
                "dtype": dtype,
                "scaler": scaler,
                "clip": bool(scaler) and calls.clip is not None,
                **seen_in_call(evidence),
            },
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put forward and loss under autocast; with float16 scale the loss as well."""
        for each in (script.copy(), script):  # what cannot all be done is not begun
            _rewrite(each, finding)


def _rewrite(script: Script, finding: Finding) -> None:
    data, where = finding.data, finding.where
    backward = where[1] if len(where) > 1 else None
    if turn_on(script, where[0], data["device"], data["dtype"], data):
        return
    put_autocast(script, where[0], backward, data["device"], data["dtype"])
    if data["scaler"]:
        clip = where[2] if data["clip"] else None
        put_scaler(script, where[1], where[-1], clip, data["scaler"])


def _dtype(evidence: Evidence) -> str | None:
    """The 16-bit type that this device multiplies fast, or None."""
    if evidence.device.kind == "CPU":
        return "bfloat16" if evidence.torch.flag("bf16_cpu") else None
    known = capability(evidence.device.first)
    if known is None or known < TENSOR_CORES_FROM:
        return None
    return "bfloat16" if known >= BFLOAT16_FROM else "float16"


def _computes_in_float32(evidence: Evidence) -> bool:
    """Whether the model is float32 and no mixed precision is on."""
    calls = evidence.torch.calls
    if calls is None or calls.autocast or calls.scaler:
        return False
    return set(evidence.torch.model.dtypes) == {"float32"}


def _seen(measured: Probe, dtype: str) -> str:
    return (
        f"In {dtype} the same forward and backward ran {times(measured.ratio)} as fast "
        f"({ms(measured.base_s)} → {ms(measured.candidate_s)})."
    )


def _gain(evidence: Evidence, dtype: str) -> tuple[float, str, str] | None:
    """The bound, what it rests on and a sentence on it; None if there is nothing to gain."""
    measured = taken_probe(evidence, "autocast")
    if measured is not None:
        if measured.low < PROBE_LEAST:
            return None
        bound = bound_if_saved(evidence, _probed_seconds(evidence, measured))
        return bound, PROBED, _seen(measured, dtype)
    if evidence.device.kind != "GPU":
        raise NotMeasured("the autocast probe was not run")
    if evidence.torch.model.compiled:
        raise NotMeasured("what 16 bits save a compiled model takes a probe to say")
    gpu, busy, model = evidence.device.first, gpu_busy(evidence), evidence.torch.model
    peak = _peak_ratio(evidence)
    products = count_of(model, (*CONVOLUTIONS, *DENSE, *RECURRENT))
    if peak is None or not products or (busy is not None and busy < BUSY):
        return None
    ratio, now = peak
    saved = kernel_seconds(evidence) * (1 - 1 / ratio)
    bound = min(ratio, bound_if_saved(evidence, saved))
    share = "" if busy is None else f" Its kernels ran {percent(busy)} of the step."
    seen = f"Peak {dtype} of {gpu.name} is {times(ratio)} its peak in {now}.{share}"
    return bound, f"forward and backward at peak {dtype} over peak {now} of this GPU", seen


def _peak_ratio(evidence: Evidence) -> tuple[float, str] | None:
    """Peak 16-bit rate of the GPU over that of what it runs now, and its name.

    PyTorch multiplies float32 matrices without TF32 unless told to; its convolutions
    have TF32 by default, where the GPU has it. None if the rates are not known.
    """
    gpu, torch = evidence.device.first, evidence.torch
    row = peaks(gpu.name)
    dense = count_of(torch.model, (*DENSE, *RECURRENT)) > count_of(torch.model, CONVOLUTIONS)
    if row is not None and dense and torch.flags.get("matmul_precision") == "highest":
        fast, slow = row["bf16_tensor_tflops"] or row["fp16_tensor_tflops"], row["fp32_tflops"]
        if fast and slow:
            return float(fast) / float(slow), "float32"
    ratio = sixteen_bit_ratio(gpu)
    tf32 = (capability(gpu) or 0.0) >= BFLOAT16_FROM
    return None if ratio is None else (ratio, "TF32" if tf32 else "float32")


def _probed_seconds(evidence: Evidence, measured: Probe) -> float:
    """Seconds a step saves: all its forwards and backwards shrink as the probed ones do.

    How long these take in a step the split says; without it, the probe, times the
    backwards of a step.
    """
    calls = evidence.torch.calls
    count = max(1.0, calls.backwards if calls else 1.0)
    seconds = measured.base_s * count
    try:
        seconds = compute_seconds(evidence)
    except NotMeasured:
        pass
    return min(seconds, step_seconds(evidence)) * (1 - 1 / measured.ratio)


def _where(evidence: Evidence, dtype: str) -> tuple[Site, ...]:
    """The sites to be edited: forward, backward, for float16 clip and step; () if unsafe.

    A backward that a library calls is left out: the source shows where the loss is made.
    """
    calls = evidence.torch.calls
    assert calls is not None
    if dtype != "float16":
        found = [site for site in (calls.forward, calls.backward) if site is not None]
        exact = calls.forward is not None and all(site.exact for site in found)
        return tuple(found) if exact else ()
    if calls.retains_graph or calls.closure or len(evidence.torch.optimizers) != 1:
        return ()
    sites = [calls.forward, calls.backward, *([calls.clip] if calls.clip else [])]
    sites.append(calls.step or evidence.torch.optimizer.step_where)
    known = [site for site in sites if site is not None and site.exact]
    return tuple(known) if len(known) == len(sites) else ()


def _snippet(device: str, dtype: str, scaler: str) -> str:
    forward = (
        f'with torch.autocast(device_type="{device}", dtype=torch.{dtype}):\n'
        "    loss = criterion(model(inputs), targets)\n"
    )
    if not scaler:
        return f"{forward}loss.backward()"
    return (
        f"scaler = torch.{scaler}  # once, before the loop\n\n{forward}"
        "scaler.scale(loss).backward()\n"
        "scaler.unscale_(optimizer)  # before gradients are clipped\n"
        "scaler.step(optimizer)\nscaler.update()"
    )

"""Time a PyTorch step against variations of it that real fixes would make.

Probes run when all else has been recorded. The weights stay as they are, but buffers,
gradients, the optimizers' states and random streams go on. Ranks make a probe in step, or none
of them does; what exchanges their gradients is left out of it.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...timing.probing import spare_memory
from ...timing.probing.alternating import CALLS, PROBE_S
from .. import batches, memory
from . import forward_backward, updates
from .passes import NotNeeded, NotOffered, Pass, changed
from .probing import NO_ANSWER, Probing, text

if TYPE_CHECKING:
    from ...timing.drivers.driver import Driver


def _double_batch(probing: Probing) -> None:
    """The pass and the update on twice the samples; its time is compared per sample.

    The loss is not known: the sum of the outputs stands in for it (see `Pass`). The
    learning rates are zero meanwhile.
    """
    found = probing.training_pass(calls=2 * CALLS)
    size = _samples(found, probing.driver)
    _check_memory(found)
    doubled = changed(found.arguments, _twice)
    trained = {id(each) for each in found.parameters}
    steppers = [
        each
        for each in probing.optimizers
        if any(id(one) in trained for group in each.param_groups for one in group["params"])
        and all("lr" in group for group in each.param_groups)
        and not _needs_closure(each)
    ]

    def run(arguments: Any) -> None:
        found(arguments)
        for each in steppers:
            each.step()

    put_back = _frozen(steppers)
    try:
        probing.compare(
            "double_batch",
            base=lambda: run(found.arguments),
            candidate=lambda: run(doubled),
            once=found.once,
            per_candidate=2,
            batch_size=size,
            model=found.name,
            updates=len(steppers),
        )
    finally:
        put_back()


def _twice(tensor: Any) -> Any:
    import torch

    return torch.cat([tensor, tensor]).detach().requires_grad_(tensor.requires_grad)


def _samples(found: Pass, driver: Driver) -> int:
    """The batch size: the first dimension that all tensors of the call have in common."""
    sizes = {leaf.shape[0] if leaf.dim() else 0 for leaf in batches.leaves(found.arguments)}
    if len(sizes) != 1 or 0 in sizes:
        raise NotOffered("the arguments of the model have no first dimension in common")
    size = int(sizes.pop())
    times_first = any(
        getattr(each, "batch_first", True) is False for each in found.module.modules()
    )
    if times_first and getattr(driver.dataset(), "batch_size", None) != size:
        raise NotOffered("the first dimension may be time (batch_first=False)")
    return size


def _check_memory(found: Pass) -> None:
    """A pass on twice the samples adds at most what the process took so far."""
    import torch

    fits = spare_memory.doubles(memory.processes())
    if found.device == "cuda":
        device = found.parameters[0].device
        left = memory.spare(device)
        fits = left is None or torch.cuda.max_memory_allocated(device) <= left
    if not fits:
        raise NotOffered("too little memory was left for twice the samples")


def _frozen(optimizers: list[Any]) -> Callable[[], None]:
    """Set the learning rates to zero: steps cost the same and leave the weights alone.

    Returns what puts them back. Without it a few hundred steps on a stand-in for the
    loss drive the weights to infinity, and some kernels stop the process on what is
    no number.
    """
    kept = [(group, group["lr"]) for one in optimizers for group in one.param_groups]
    for group, rate in kept:
        group["lr"] = rate.detach() * 0 if hasattr(rate, "detach") else 0.0

    def put_back() -> None:
        for group, rate in kept:
            group["lr"] = rate

    return put_back


def _needs_closure(optimizer: Any) -> bool:
    """Whether a step must be given a function that computes the loss (`LBFGS`)."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


PROBES: dict[str, Callable[[Probing], None]] = {
    "autocast": forward_backward.autocast,
    "channels_last": forward_backward.channels_last,
    "fused": updates.fused,
    "anomaly": forward_backward.anomaly,
    "matmul_precision": forward_backward.matmul_precision,
    "cudnn_benchmark": forward_backward.cudnn_benchmark,
    "double_batch": _double_batch,
    "compile": forward_backward.compiled,
}
"""The quick and the likely ones first."""
OWN_STEP = frozenset(PROBES) - {"double_batch"}
"""Those that vary what is the user's own to write, and Keras's in its `fit`."""


def record(driver: Driver, deadline: float) -> None:
    """Run the probes that make sense for the largest trained model and its optimizer.

    `driver.loops.model_calls` holds the last call of each trained model as (module,
    args, kwargs), `driver.loops.autocast` the dtype of the autocast region around it.
    Each probe is an event `probe`, or `missing` with the reason why it was not run; of
    what is there already, or could change nothing, there is neither.
    """
    if driver.world is not None:
        left = driver.world.all_say("probes", deadline - time.monotonic())
        if left is None:
            _none(driver, NO_ANSWER)
            return
        deadline = time.monotonic() + min(left)
    probing = Probing(driver, deadline)
    for name, run in PROBES.items():
        if driver.kind == "fit" and name in OWN_STEP:
            continue
        late = time.monotonic() > deadline
        reason = probing.lacking(PROBE_S) if late else _attempt(run, probing, name)
        if reason:
            probing.leave(name, reason)
            _release(driver)
            driver.record.write("missing", what=f"probe {name}", reason=reason)
    driver.record.flush()


def _none(driver: Driver, reason: str) -> None:
    for name in PROBES:
        driver.record.write("missing", what=f"probe {name}", reason=reason)
    driver.record.flush()


def _attempt(run: Callable[[Probing], None], probing: Probing, name: str) -> str:
    try:
        run(probing)
    except NotNeeded as error:
        probing.leave(name, str(error))
        return ""
    except NotOffered as error:
        return str(error)
    except Exception as error:
        return text(error)
    return ""


def _release(driver: Driver) -> None:
    """Give back what a probe that failed had taken on the GPU."""
    cuda = sys.modules["torch"].cuda
    if cuda.is_initialized():
        with contextlib.suppress(Exception):  # the reason of the probe says what happened
            driver.sync()
            cuda.empty_cache()

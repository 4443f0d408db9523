"""Time a PyTorch step against variations of it that real fixes would make.

Probes run when all else has been recorded. The weights stay as they are, but buffers,
gradients, the optimizers' states and random streams go on. Ranks make a probe in step, or none
of them does; what exchanges their gradients is left out of it.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...timing.probing.alternating import PROBE_S
from . import forward_backward, larger_batch, updates
from .passes import NotNeeded, NotOffered
from .probing import NO_ANSWER, Probing, text

if TYPE_CHECKING:
    from ...timing.drivers.loop_drivers import LoopDriver

PROBES: dict[str, Callable[[Probing], None]] = {
    "autocast": forward_backward.autocast,
    "channels_last": forward_backward.channels_last,
    "fused": updates.fused,
    "foreach": updates.foreach,
    "matmul_precision": forward_backward.matmul_precision,
    "cudnn_benchmark": forward_backward.cudnn_benchmark,
    "double_batch": larger_batch.double_batch,
    "compile": forward_backward.compiled,
}
"""The quick and the likely ones first."""
OWN_STEP = frozenset(PROBES) - {"double_batch"}
"""Those that vary what is the user's own to write, and Keras's in its `fit`."""


def record(driver: LoopDriver, deadline: float) -> None:
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


def _none(driver: LoopDriver, reason: str) -> None:
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


def _release(driver: LoopDriver) -> None:
    """Give back what a probe that failed had taken on the GPU."""
    cuda = sys.modules["torch"].cuda
    if cuda.is_initialized():
        with contextlib.suppress(Exception):  # the reason of the probe says what happened
            driver.sync()
            cuda.empty_cache()

"""Facts about a PyTorch loop, read once when all is timed: batch, device, models, flags."""

from __future__ import annotations

import sys
from typing import Any

from ..timing.probing import gpu_build
from . import batches as torch_batches
from . import memory as gpu_memory
from . import samples, trainers
from .built import flags, gpus, models, optimizers
from .built.flags import watch_flags
from .built.places import watch_checkpointing, watch_modules, watch_optimizers
from .exchange import exchange
from .loader import padding, settings
from .probes import packed, unpadded

__all__ = [
    "loop_facts",
    "record",
    "watch_checkpointing",
    "watch_flags",
    "watch_modules",
    "watch_optimizers",
]


def loop_facts(driver: Any) -> dict[str, Any]:
    """Size and kind of the batch, what feeds the loop, what makes the model parallel.

    `epoch_steps` counts batches. Without a loader the batch is what the model was
    called with last.
    """
    loader = driver.loader
    facts: dict[str, Any] = {
        "batches_per_step": getattr(driver, "batches_per_step", 1),
        "updates_per_step": getattr(driver, "updates_per_step", 1),
        "epochs_ended": driver.epochs_ended,
        "input_kind": "DataLoader" if loader is not None else "arrays in the loop",
        "replicas": 1,
        "strategy": models.strategy(driver.loops),
    }
    calls = list(driver.loops.model_calls.values())
    if driver.batch is not None:
        batch = samples.usual(driver.recent_batches() or [driver.batch], loader)
        size = samples.of_batch(batch, loader)
    else:
        batch = [*calls[-1][1], *calls[-1][2].values()] if calls else None
        size = samples.of_call(calls[-1]) if calls else None
    leaves = list(torch_batches.leaves(batch))
    if leaves:
        facts["batch_size"] = size
        facts["batch_bytes"] = torch_batches.size_in_bytes(batch)
        facts["batch_parts"] = [dtype_name(leaf) for leaf in leaves]
        facts["batch_dtypes"] = sorted(set(facts["batch_parts"]))
    if loader is not None:
        facts["epoch_steps"] = _length(loader) or driver.epoch_batches
    return facts


def dtype_name(tensor: Any) -> str:
    """A tensor's dtype as other frameworks call it: "float32"."""
    return str(tensor.dtype).removeprefix("torch.")


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except (TypeError, NotImplementedError):  # an iterable dataset without a length
        return None


def record(driver: Any) -> None:
    """Record what is known of device, models, optimizers, flags, exchange and CUDA's memory."""
    gpu_build.record_order(driver)
    driver.process.fact("cuda_failed", gpus.failure())
    for what, part in (
        ("the device", _framework),
        ("CUDA's memory", _memory),  # before one forward more is run, which could add to it
        ("the GPUs' memory", gpu_memory.record),
        ("models", models.record),
        ("optimizers", optimizers.record),
        ("flags", flags.record),
        ("the trainer", trainers.record),
        ("the exchange of gradients", exchange.record),
        ("the build", gpu_build.record_torch),
        ("samples and tokens", samples.record),
        ("padding", _padding),
    ):
        try:
            part(driver)
        except Exception as error:
            driver.process.failed(f"facts about {what}", error)


def _padding(driver: Any) -> None:
    size = None if driver.loader is None else settings.batch_size(driver.loader)
    found = padding.padded(driver.recent_batches(), size)
    if found is not None:
        driver.record.write(
            "padding",
            **found,
            masked=unpadded.of_driver(driver),
            packing=packed.of_driver(driver),
            collator=settings.collator(driver.loader),
        )


def _framework(driver: Any) -> None:
    torch: Any = sys.modules["torch"]
    seen = _gpus(driver)
    driver.record.write(
        "framework",
        name="torch",
        version=str(torch.__version__),
        keras=_keras_version(),
        legacy=False,
        cuda=torch.version.cuda is not None,
        gpus=seen,
        logical=sum(one["used"] for one in seen) or 1,
    )


def _gpus(driver: Any) -> list[dict[str, Any]]:
    """The GPUs that CUDA shows; of one that is gone, no more than that the loop used it."""
    try:
        return gpus.seen(driver)
    except Exception as error:
        driver.process.failed("facts about the GPUs", error)
        return [gpus.unknown(index) for index in models.devices(driver)]


def _keras_version() -> str | None:
    """The version of Keras where it runs on PyTorch."""
    keras: Any = sys.modules.get("keras")
    if keras is None or keras.backend.backend() != "torch":
        return None
    return str(keras.__version__)


def _memory(driver: Any) -> None:
    used = gpus.used(driver)
    if used:
        driver.record.write("torch_memory", values=memory(used[0]))


def memory(device: int) -> dict[str, int]:
    """The counts of CUDA's allocator on a device: bytes, and counts of retries and failures."""
    cuda: Any = sys.modules["torch"].cuda
    stats = cuda.memory_stats(device)
    names = {
        "allocated_peak": "allocated_bytes.all.peak",
        "reserved_peak": "reserved_bytes.all.peak",
        "retries": "num_alloc_retries",
        "ooms": "num_ooms",
    }
    found = {name: int(stats[key]) for name, key in names.items() if key in stats}
    return found | {"total": int(cuda.get_device_properties(device).total_memory)}

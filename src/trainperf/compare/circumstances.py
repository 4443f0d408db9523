"""The circumstances of two diagnoses: machines, settings, and whether times compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trainperf.compare.values import Difference
from trainperf.model import Diagnosis, Machine

CORES = 0.1
"""Cores by which the usable ones may differ: quotas are written with one decimal."""

BUSY = 0.5
"""Cores that other programs keep busy from which they are named, as in a check."""

GIB = 1024**3


def machine(a: Diagnosis, b: Diagnosis) -> tuple[Difference, ...]:
    """What is not the same of the machines and what is installed on them."""
    return _differences(a, b, _MACHINE)


def settings(a: Diagnosis, b: Diagnosis) -> tuple[Difference, ...]:
    """What is not the same of script, command and loop."""
    return _differences(a, b, _SETTINGS)


def refusals(a: Diagnosis, b: Diagnosis) -> tuple[str, ...]:
    """Why the times of two diagnoses say nothing about the script; empty if they do."""
    return tuple(_refusals(a, b))


def remarks(a: Diagnosis, b: Diagnosis) -> tuple[str, ...]:
    """What may explain a difference besides the script."""
    told = {one.name: one for one in (*machine(a, b), *settings(a, b))}
    differences = (
        f"{name}: {told[name].before or 'not known'} before, {told[name].after or 'not known'} now"
        for name in _REMARKED
        if name in told
    )
    return (*differences, *neighbours(a, b))


def neighbours(a: Diagnosis, b: Diagnosis) -> tuple[str, ...]:
    """What other programs did beside the two, where that was enough to slow them down.

    Noise is what a run shows of itself: a neighbour that stays for all of it is not in it.
    """
    sides = (("first", a), ("second", b))
    busy = ((which, _others(one)) for which, one in sides)
    return tuple(
        f"other programs kept {cores:.1f} cores busy beside the {which} run"
        for which, cores in busy
        if cores > BUSY
    )


def other_batch(a: Diagnosis, b: Diagnosis) -> bool:
    """Whether a step of the one has another number of samples than one of the other."""
    before, after = batch(a), batch(b)
    return before is not None and after is not None and before != after


def batch(diagnosis: Diagnosis) -> int | None:
    """Samples per step, None where not known."""
    return diagnosis.loop.batch_size if diagnosis.loop is not None else None


def ranks(diagnosis: Diagnosis) -> int:
    """How many replicas train together."""
    if diagnosis.parallel is not None:
        return diagnosis.parallel.replicas
    return diagnosis.loop.replicas if diagnosis.loop is not None else 1


def _refusals(a: Diagnosis, b: Diagnosis) -> Iterator[str]:
    if a.times.real_s is None or b.times.real_s is None:
        which = "first" if a.times.real_s is None else "second"
        yield f"no step was timed in the {which} run"
    if {a.device.kind, b.device.kind} == {"CPU", "GPU"}:
        yield f"one trained on a {a.device.kind}, the other on a {b.device.kind}"
    elif a.device.kind == "GPU" and (a.device.name, a.device.count) != (
        b.device.name,
        b.device.count,
    ):
        yield f"other GPUs: {_device(a)} against {_device(b)}"
    if a.machine.cpu_model != b.machine.cpu_model:
        yield f"other processors: {a.machine.cpu_model} against {b.machine.cpu_model}"
    if abs(a.machine.cores - b.machine.cores) > CORES:
        yield (f"another number of usable cores: {_cores(a.machine)} against {_cores(b.machine)}")
    if ranks(a) != ranks(b):
        yield f"another number of replicas: {ranks(a)} against {ranks(b)}"
    if a.framework.name and b.framework.name and a.framework.name != b.framework.name:
        yield f"other frameworks: {a.framework.name} against {b.framework.name}"


def _differences(
    a: Diagnosis, b: Diagnosis, readers: dict[str, Callable[[Diagnosis], str]]
) -> tuple[Difference, ...]:
    pairs = ((name, _text(read(a)), _text(read(b))) for name, read in readers.items())
    return tuple(Difference(*one) for one in pairs if one[1] != one[2])


def _text(value: str) -> str:
    """The value as a saved report has it: bytes of a name that are no text are escaped there."""
    return value.encode("utf-8", "backslashreplace").decode()


def _others(diagnosis: Diagnosis) -> float:
    """Cores that others kept busy while the script trained; 0.0 where not known."""
    use = next((one for one in diagnosis.utilization if one.phase == "real"), None)
    if use is None or use.cpu_cores is None or use.machine_cpu_cores is None:
        return 0.0
    return use.machine_cpu_cores - use.cpu_cores


def _device(diagnosis: Diagnosis) -> str:
    return f"{diagnosis.device.count} × {diagnosis.device.name}"


def _cores(box: Machine) -> str:
    return f"{box.cores:.3g}"


def _gpus(box: Machine) -> str:
    names = [gpu.name for gpu in box.gpus]
    return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))


def _framework(diagnosis: Diagnosis) -> str:
    framework = diagnosis.framework
    keras = f", keras {framework.keras}" if framework.keras else ""
    return f"{framework.name} {framework.version}{keras}".strip()


def _loop(name: str) -> Callable[[Diagnosis], str]:
    def read(diagnosis: Diagnosis) -> str:
        value = getattr(diagnosis.loop, name, None)
        return "" if value is None else ", ".join(value) if isinstance(value, tuple) else str(value)

    return read


def _command(diagnosis: Diagnosis) -> str:
    """The arguments; which Python ran them is the machine's."""
    return " ".join(diagnosis.command[1:])


_MACHINE: dict[str, Callable[[Diagnosis], str]] = {
    "instance": lambda one: one.machine.instance.name if one.machine.instance else "",
    "host": lambda one: one.machine.hostname,
    "processor": lambda one: one.machine.cpu_model,
    "usable cores": lambda one: _cores(one.machine),
    "memory limit": lambda one: f"{one.machine.memory_limit / GIB:.1f} GiB",
    "container": lambda one: one.machine.container,
    "GPUs": lambda one: _gpus(one.machine),
    "GPU driver": lambda one: one.machine.driver or "",
    "system": lambda one: one.machine.os,
    "Python": lambda one: one.machine.python,
    "framework": _framework,
    "OMP_NUM_THREADS": lambda one: one.machine.omp_num_threads or "",
}

_REMARKED = (
    "instance",
    "host",
    "memory limit",
    "container",
    "GPU driver",
    "system",
    "Python",
    "framework",
    "OMP_NUM_THREADS",
    "arguments",
)
"""Differences that may matter and refuse nothing, in this order."""

_SETTINGS: dict[str, Callable[[Diagnosis], str]] = {
    "script": lambda one: one.script,
    "arguments": _command,
    "device": lambda one: f"{one.device.count} × {one.device.kind}" if one.device.kind else "",
    "replicas": lambda one: str(ranks(one)),
    "batch size": _loop("batch_size"),
    "types of a batch": _loop("batch_dtypes"),
    "steps of an epoch": _loop("epoch_steps"),
    "steps per execution": _loop("steps_per_execution"),
    "updates of a step": _loop("updates_per_step"),
    "kind of loop": _loop("kind"),
    "kind of input": _loop("input_kind"),
    "strategy": _loop("strategy"),
}

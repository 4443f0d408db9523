"""Compare two diagnoses: what is different, beyond the noise. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from trainperf.model import Diagnosis, by_fix, known
from trainperf.model.words import ratio as speedup

PROCESS = 0.015
"""Half the interval of a time, at least: two processes of one script differ so all their life."""
UNKNOWN = 0.10
"""The same where the noise is not known, and of stages and parts: few steps show them."""
REFUSING = ("device", "number of replicas", "processor", "number of usable cores", "framework")
"""Where these are not the same, times say nothing about the script."""
Values = Mapping[str, object]
CHANGED = "changed"
WORDS = "Script, settings and machine"


class Figure(NamedTuple):
    """A figure of one diagnosis; `noise` is half its 95 % interval, as a share of it."""

    unit: str
    value: float | None
    noise: float = UNKNOWN


@dataclass(frozen=True)
class Row:
    """A figure of both diagnoses, or words that differ; None or "" where it is not known.

    `change` is the relative one. A figure is `judged` "changed" where the intervals do not meet.
    """

    name: str
    before: float | str | None
    after: float | str | None
    unit: str = ""
    change: float | None = None
    judged: str = CHANGED


@dataclass(frozen=True)
class Comparison:
    """The differences between two diagnoses, the first of which is the earlier state.

    `before` and `after` say what each is of, and its verdict; `tables` have titles. `speed` is how
    it changed, in a sentence; `refusals` say why times must not be compared.
    """

    before: str
    after: str
    tables: dict[str, tuple[Row, ...]]
    speed: str
    refusals: tuple[str, ...]


def compare(a: Diagnosis, b: Diagnosis) -> Comparison:
    """Say what is different in `b` against `a`; never raises, whatever they lack."""
    words = tuple(_rows(_circumstances(a), _circumstances(b)))
    refusals = [
        f"another {row.name}: {row.before} against {row.after}"
        for row in words
        if row.name in REFUSING and row.before and row.after
    ]
    for side, which in ((a, "first"), (b, "second")):
        if side.step_s is None:
            refusals.append(f"no step was timed in the {which} run")
    why = "of other circumstances" if refusals else ""
    batch = any(row.name == "batch size" and row.before and row.after for row in words)
    of_step = "the batch size is not the same" if batch and not why else why
    before, after = _results(a), _results(b)
    tables = {title: tuple(_rows(before[title], after[title], why, of_step)) for title in after}
    if not (a.trials and b.trials):
        tables.pop("Fixes that were tried")
    tables[WORDS] = words
    return Comparison(
        f"{a.script}, {a.created}: {a.verdict.text}",
        f"{b.script}, {b.created}: {b.verdict.text}",
        tables,
        _speed(tables, bool(refusals), "samples per second" if batch else "real step"),
        tuple(refusals),
    )


def _speed(tables: Mapping[str, tuple[Row, ...]], refused: bool, name: str) -> str:
    row = next((row for row in tables["Times"] if row.name == name), None)
    if refused or row is None or row.change is None:
        return "The times are of other circumstances, so they say nothing about the script."
    if not any(row.judged == CHANGED for rows in tables.values() for row in rows):
        return "Nothing changed beyond the noise."
    if row.judged != CHANGED:
        return "It trains as fast as before, as far as the noise lets tell."
    ratio = 1 / (1 + row.change) if row.unit == "s" else 1 + row.change
    return f"It trains {'' if ratio >= 1 else 'slower: '}{speedup(ratio)} as fast as before."


def _rows(a: Values, b: Values, why: str = "", of_step: str = "") -> Iterator[Row]:
    """The figures side by side, with a reason to not judged; of words, those that differ.

    Words are as a saved report has them: bytes of a name that are no text are escaped there.
    """
    for name in dict.fromkeys((*b, *a)):
        old, new = a.get(name), b.get(name)
        if not isinstance(old or new, Figure):
            was, now = (str(of or "").encode("utf-8", "backslashreplace") for of in (old, new))
            if was != now:
                yield Row(name, was.decode(), now.decode())
            continue
        unit, before, noise = old if isinstance(old, Figure) else Figure("s", None)
        unit, after, other_noise = new if isinstance(new, Figure) else Figure(unit, None)
        if before is not None and after is not None:
            apart = abs(after - before) > before * noise + after * other_noise
            judged = (of_step if unit == "s" else why) or (CHANGED if apart else "within the noise")
            change = after / before - 1 if before > 0 else None
            yield Row(name, before, after, unit, change, judged)
        elif before is not None or after is not None:
            yield Row(name, before, after, unit, judged="not measured in both")


def _results(of: Diagnosis) -> dict[str, Values]:
    evidence, between = of.evidence, of.evidence.between_epochs
    noise = UNKNOWN if of.noise is None else max(of.noise, PROCESS)
    start, torch = evidence.startup, evidence.torch_
    found = {
        "real step": Figure("s", of.step_s, noise),
        "resident step": Figure("s", of.resident_s, noise),
        "input for a step": Figure("s", of.input_s, noise),
        "host work for a step": Figure("s", of.host_s),
        "samples per second": Figure("samples/s", of.per_s(evidence.loop.batch_size), noise),
        "utilisation": Figure("share", of.verdict.utilization),
        "start-up": Figure("s", None if start is None else start.to_first_step_s),
    }
    if between is not None and between.epochs_seen and between.sure and between.seconds:
        least = (of.step_s or 0.0) / between.seconds  # less than a step is never a change
        found["between epochs"] = Figure("s", between.seconds, max(2 * UNKNOWN, least))
    stages = {
        f"{stage.op} {stage.function.name if stage.function else ''}": stage.seconds_per_step_
        for stage in known(evidence.stages_) or ()
    }
    split = None if torch is None else known(torch.split_)
    parts = {str(part.name): part.seconds for part in split or ()}
    return {
        "Times": found,
        "Input pipeline": {name: Figure("s", known(value)) for name, value in stages.items()},
        "Parts of a step": {name: Figure("s", value) for name, value in parts.items()},
        "Findings": {
            "bottleneck": of.verdict.bottleneck,
            **{left_out.finding.id: "ignored" for left_out in of.ignored},
            **{finding.id: "found" for finding in of.findings},
        },
        "Fixes that were tried": {fix: str(one.outcome) for fix, one in by_fix(of.trials).items()},
    }


def _circumstances(of: Diagnosis) -> dict[str, object]:
    evidence, loop = of.evidence, of.loop
    box, device, framework = evidence.machine, evidence.device, evidence.framework
    return {
        "script": of.script,
        "arguments": " ".join(of.command[1:]),  # which Python ran them is the machine's
        "device": device.kind
        and f"{device.count} × {device.name if device.kind == 'GPU' else device.kind}",
        "number of replicas": (evidence.parallel_ or evidence.loop).replicas,
        "batch size": loop and loop.batch_size,
        "steps of an epoch": loop and loop.epoch_steps,
        "strategy": loop and loop.strategy,
        "instance": box.instance and box.instance.name,
        "host": box.hostname,
        "processor": box.cpu_model,
        "number of usable cores": f"{round(4 * box.cores) / 4:g}",  # a quota has one decimal
        "memory limit": f"{box.memory_limit / 1024**3:.1f} GiB",
        "GPUs": ", ".join(gpu.name for gpu in box.gpus),
        "GPU driver": box.driver,
        "system": box.os,
        "Python": box.python,
        "framework": framework.name,
        "version": " with Keras ".join(filter(None, (framework.version, framework.keras))),
        "OMP_NUM_THREADS": box.omp_num_threads,
    }

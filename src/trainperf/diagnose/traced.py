"""The diagnosis of a trace: what a run would say of it, all predicted and nothing tried."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trainperf.diagnose import Request
from trainperf.diagnose.judging import first_verdict
from trainperf.evidence.traced import evidence_of, read_of
from trainperf.model import Diagnosis, Ending, Recording, Run
from trainperf.model.words import share
from trainperf.recording.chrome_trace import read


def diagnose_trace(file: Path, ignore: tuple[str, ...] = ()) -> Diagnosis:
    """The diagnosis of a Chrome trace of `torch.profiler`, without the findings in `ignore`.

    Raises `TrainperfError` where the file is none, or marks too few steps.
    """
    trace = read(file)
    evidence = evidence_of(trace)
    command = ("trainperf", "diagnose", "--from-trace", str(file))
    run = Run(command=command, cwd=str(Path.cwd()), label=file.name)
    span_s = max(event.span[1] for event in trace.events) / 1e6
    recording = Recording(run, Ending.FINISHED, 0, 0.0, span_s, {})
    first = first_verdict(Request(run, file.parent, ignore, trials=False), recording, evidence)
    verdict = first.verdict
    if verdict.healthy:  # no trace can show that
        busy, real = evidence.times.device_s, evidence.times.real
        on = (
            f"The GPU is busy for {share(min(1.0, busy / real))} of" if busy else "Nothing waits in"
        )
        text = f"{on} each step, and the trace shows nothing that would shorten it."
        verdict = replace(verdict, text=text, healthy=False, grade="not examined")
    side = verdict.bottleneck  # as no gain was measured, what holds the step up comes first
    return replace(
        first,
        verdict=verdict,
        findings=tuple(sorted(first.findings, key=lambda finding: finding.category != side)),
        notes=(),
        not_measured=(),
        training=None,
        read_from=read_of(trace, file.name),
    )

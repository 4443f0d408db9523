"""The section of a job that ran beside its own diagnosis."""

from __future__ import annotations

from dataclasses import replace

from reporters.rendering import text
from reporters.samples_observed import HEALTHY
from trainperf.model import Site, Trials
from trainperf.model.running import RunningJob, SampledPlace, SampledStacks
from trainperf.report.whole import short
from trainperf.reporters import html, markdown

JOB = RunningJob(
    pid=4711,
    started_by=4710,
    began="2026-11-23T14:02:11+00:00",
    ended=False,
    cores=1.62,
    gpu_memory=3 * 2**30,
    stacks_reason="py-spy is not on the PATH",
)
STACKS = SampledStacks(
    4711,
    20,
    4.1,
    (
        SampledPlace(0.85, Site(f"{HEALTHY.cwd}/train.py", 21, "train"), "select"),
        SampledPlace(0.15, None, "poll"),
    ),
)


def said(job: RunningJob) -> str:
    return " ".join(text(replace(HEALTHY, running=job), 100).split())


def test_the_report_says_what_the_running_job_took():
    assert (
        "Process 4711, started by process 4710, has run since 2026-11-23 14:02:11 UTC. "
        "This diagnosis left it alone, and shared the machine with it: it kept 1.6 of "
    ) in said(JOB)
    assert "busy and held 3.00 GiB of GPU memory. Times may be longer" in said(JOB)
    assert "was not sampled: py-spy is not on the PATH." in said(JOB)
    assert "The running job" not in text(HEALTHY, 100)


def test_without_figures_none_is_printed():
    bare = said(replace(JOB, cores=None, gpu_memory=None))
    assert "shared the machine with it. Times may be longer" in bare


def test_a_job_that_ended_meanwhile_and_files_that_changed_are_said():
    told = said(replace(JOB, ended=True, changed=(f"{HEALTHY.cwd}/train.py",)))
    assert "UTC on, and ended while this diagnosis was made." in told
    assert "Changed since it was started: train.py." in told


def test_the_command_that_leads_on_names_the_process_that_stays():
    told = text(replace(HEALTHY, running=JOB, trying=Trials("", budget_needed_s=281.0)), 100)
    assert "trainperf diagnose --budget 5min --pid 4710" in told


def test_the_places_of_its_main_thread_are_a_table_in_every_report():
    job = replace(JOB, stacks=STACKS, stacks_reason="")
    told = said(job)
    assert "main thread of process 4711 was, 20 times in 4.10 s" in told
    assert "85 % train train.py:21 select" in told
    assert "15 % poll" in told
    diagnosis = replace(HEALTHY, running=job)
    assert "| train.py:21 |" in markdown.render(diagnosis)
    assert "The running job" in html.render(diagnosis)
    assert short(diagnosis).section("running") is not None

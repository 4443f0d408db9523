"""`trainperf sagemaker submit` and `fetch`."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import trainperf
from trainperf.commands import outputs, run_folders
from trainperf.commands._shared import console, read_settings
from trainperf.errors import TrainperfError

if TYPE_CHECKING:
    from trainperf.sagemaker.job import Job
    from trainperf.sagemaker.service import Service
    from trainperf.settings import Settings


AS_GIVEN = (
    "arguments", "instance_type", "instance_count", "role", "image", "input_mode", "volume_gb",
    "torchrun",
)  # fmt: skip
"""Options that a job has as they are."""


@click.group()
def sagemaker() -> None:
    """Diagnose a script as a SageMaker training job; it costs money."""


@sagemaker.command(short_help="Diagnose a script as a training job. Costs money.")
@click.option("--instance-type", required=True, metavar="TYPE", help="Such as ml.g5.xlarge.")
@click.option("--instance-count", type=click.IntRange(min=1), default=1, show_default=True,
              help="How many of them.")  # fmt: skip
@click.option("--role", required=True, metavar="ARN", help="The role the job runs as.")
@click.option("--image", required=True, metavar="URI", help="The training image, with python3.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=S3", help="An input channel; the "
              "script finds it in SM_CHANNEL_NAME.")  # fmt: skip
@click.option("--input-mode", type=click.Choice(["File", "FastFile", "Pipe"]), default="File",
              show_default=True, help="How the channels come.")  # fmt: skip
@click.option("--output", metavar="S3", help="Where source and output go [default: "
              "s3://sagemaker-REGION-ACCOUNT/trainperf].")  # fmt: skip
@click.option("--region", metavar="NAME", help="The AWS region [default: that of your profile].")
@click.option("--source-dir", type=click.Path(path_type=Path), default=Path(), metavar="DIR",
              help="What is packed and uploaded [default: this folder].")  # fmt: skip
@click.option("--max-runtime", default="1h", show_default=True, metavar="TIME",
              help="When SageMaker stops the job.")  # fmt: skip
@click.option("--volume-size", "volume_gb", type=click.IntRange(min=1), default=30,
              show_default=True, metavar="GB", help="The disk that is attached.")  # fmt: skip
@click.option("--trainperf", "wanted", metavar="WHEEL", help="A wheel, or what pip is to install "
              "[default: this version].")  # fmt: skip
@click.option("--torchrun", is_flag=True, help="Start the script by torchrun, a rank per GPU.")
@click.option("--no-wait", is_flag=True, help="Start the job and return.")
@click.option("--dry-run", is_flag=True, help="Print the request as JSON; nothing is sent.")
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]…")
def submit(no_wait: bool, dry_run: bool, **given: Any) -> None:
    """Run `trainperf diagnose SCRIPT ARGS` as a training job, and bring the report back.

    \b
    trainperf sagemaker submit train.py --instance-type ml.g5.xlarge \\
        --role ARN --image URI --input train=s3://bucket/train -- --epochs 1

    The source folder is packed (without version control, caches, virtual environments and
    files above 50 MiB) and uploaded to S3.

    It costs money: AWS charges for the instances until the diagnosis is done or
    --max-runtime is over, and for what is stored. --dry-run sends nothing.

    Exit status: as of `trainperf diagnose`; 3 also where the job failed.
    """
    import json

    from trainperf.model.words import count
    from trainperf.sagemaker import job as jobs
    from trainperf.sagemaker import packing, service

    settings, job = read_settings({}), _job(given)
    installed = jobs.installed_by(given["wanted"], trainperf.__version__)
    if dry_run:
        click.echo(json.dumps(jobs.request(job), indent=2))
        return
    packed = packing.pack(given["source_dir"], job.script)
    for name in packed.left_out:
        say(f"left out for its size: {name}; give data by --input")
    made = service.connect(given["region"])
    say(
        f"this starts a training job on {count(job.instance_count, 'instance')} of "
        f"{job.instance_type} in {made.region} for {job.max_runtime_s // 60} minutes at most; AWS "
        f"charges for it, and for what is stored in {job.output}"
    )
    jobs.submit(made, job, packed, installed, say)
    if no_wait:
        say(f"its report: trainperf sagemaker fetch {job.name} --region {made.region}")
        return
    _finish(made, job.name, job.script, settings)


@sagemaker.command()
@click.option("--region", metavar="NAME", help="The AWS region [default: that of your profile].")
@click.argument("job")
def fetch(job: str, region: str | None) -> None:
    """Wait for a job that `submit` started, and bring its report back.

    Exit status: as of `trainperf diagnose`; 3 also where the job failed.
    """
    from trainperf.sagemaker import service

    _finish(service.connect(region), job, job, read_settings({}))


def say(text: str) -> None:
    """Print a line on stderr."""
    console(stderr=True).print(text, markup=False, soft_wrap=True)


def _job(given: dict[str, Any]) -> Job:
    """The job that is asked for, checked; nothing is called but what names the region."""
    import datetime

    from trainperf.commands import session
    from trainperf.sagemaker import packing, service
    from trainperf.sagemaker.job import Job, channels, default_output, named
    from trainperf.settings import duration

    folder = given["source_dir"]
    script = packing.relative_script(given["script"], folder)
    session.check_script(folder / script)
    if script.endswith(".ipynb"):
        raise TrainperfError(
            f"{script} is a notebook", hint=f"jupyter nbconvert --to script {script} makes a script"
        )
    try:
        seconds = int(duration(given["max_runtime"]))
    except ValueError as error:
        raise TrainperfError(f"--max-runtime {given['max_runtime']}", str(error)) from error
    output = given["output"] or default_output(given["role"], service.region_of(given["region"]))
    return Job(
        name=named(script, datetime.datetime.now(datetime.UTC)),
        script=script,
        output=output.rstrip("/"),
        inputs=channels(given["inputs"]),
        max_runtime_s=seconds,
        **{name: given[name] for name in AS_GIVEN},
    )


def _finish(made: Service, name: str, script: str, settings: Settings) -> None:
    from trainperf import store
    from trainperf.commands import session
    from trainperf.sagemaker import job as jobs
    from trainperf.sagemaker import service

    folder = run_folders.new_folder(settings, script)
    try:
        found = jobs.collect(made, name, folder, say, service.POLL_S)
    except BaseException as error:
        (folder / "output.tar.gz").unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()
        if not isinstance(error, KeyboardInterrupt):
            raise
        say(f"the job {name} goes on, and costs money until it ends")
        say(jobs.how_to_stop(made, name))
        say(f"its report: trainperf sagemaker fetch {name} --region {made.region}")
        sys.exit(130)
    if found.is_dir():
        diagnosis, _, unsaved = session.merge(
            found, folder / store.DIAGNOSIS_FILE, settings, console(stderr=True)
        )
    else:
        diagnosis, unsaved = store.load(found), None
    sys.exit(outputs.end_with_report(diagnosis, folder, unsaved, settings))

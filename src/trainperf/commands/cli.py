"""The commands. The only exits, and the only place where errors are printed."""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

import trainperf
from trainperf.commands import outputs, run_folders
from trainperf.commands._shared import (
    ScriptCommand,
    close_stdout,
    console,
    options,
    read_settings,
    silence,
    tell,
)
from trainperf.commands.check import check
from trainperf.commands.compare import compare
from trainperf.commands.explain import explain
from trainperf.commands.lint import lint
from trainperf.commands.sagemaker import sagemaker
from trainperf.commands.try_ import try_
from trainperf.errors import TrainperfError
from trainperf.report.plain import no_commands, one_line

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a stream that cannot take more gives."""

DONE, OUR_ERROR, INTERRUPTED = 0, 2, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(trainperf.__version__, prog_name="trainperf")
def cli() -> None:
    """Say why a TensorFlow, Keras or PyTorch script trains slowly, and what to change.

    Start with: trainperf diagnose train.py
    """


@cli.command(
    cls=ScriptCommand, short_help="Run a script for a few dozen steps and say why it is slow."
)
@options("module", "python")
@click.option("--pid", type=click.IntRange(min=1), metavar="N", help="Run what process N runs, in "
              "its folder and environment; that one goes on.")  # fmt: skip
@click.option("--from-trace", type=click.Path(path_type=Path), metavar="FILE", help="Run nothing: "
              "predict from a trace of torch.profiler, FILE.json or FILE.json.gz.")  # fmt: skip
@options("budget")
@click.option("--no-trials", "trials", is_flag=True, flag_value=False, default=None,
              help="Do not try the fixes: the first verdict only.")  # fmt: skip
@options("sequential")
@click.option("--allow-semantic", is_flag=True, default=None, help="Fixes that change the "
              "experiment may go into the patch.")  # fmt: skip
@click.option("--only", multiple=True, metavar="FIX", help="Try no fix but this one, by its id.")
@options("stall")
@click.option("--full-run", metavar="TIME", help="What plain runs of the whole script, with the "
              "patch and without, may take beyond the budget.")  # fmt: skip
@options("price", "json", "output_format", "patch")
@click.option("--trace", metavar="FILE", help="Write a trace of a few steps, for "
              "ui.perfetto.dev or chrome://tracing; FILE.json or FILE.json.gz.")  # fmt: skip
@options("output_dir")
@click.option("--run-dir", metavar="DIR", help="Where the ranks of a job that each have a "
              "trainperf leave their records [default: a folder named for the job].")  # fmt: skip
@options("fail_on", "ignore", "full", "quiet")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]…")
def diagnose(
    module: str | None,
    pid: int | None,
    from_trace: Path | None,
    command: tuple[str, ...],
    **flags: Any,
) -> None:
    """Run a training script for a few dozen steps and say why it is slow.

    It may use TensorFlow, Keras or PyTorch, in the version that is installed.

    \b
    trainperf diagnose train.py --epochs 3
    trainperf diagnose -m package.train --epochs 3
    trainperf diagnose notebook.ipynb
    trainperf diagnose -- torchrun --nproc_per_node 2 train.py
    trainperf diagnose --pid 4711
    trainperf diagnose --from-trace trace.json.gz

    The script runs unmodified until its steps are measured, then again with each fix
    that may help, beside the unchanged script. Your source files are not changed;
    `trainperf fix` does that. Nothing is uploaded.

    Started once for each rank of a job, by torchrun --no-python, srun, mpirun or on each
    host, it only observes its own rank; `trainperf merge` then makes one report.

    Exit status: 0 done, 1 `--fail-on` met, 2 wrong usage or no training loop seen,
    3 the script failed.
    """
    from trainperf import ranks
    from trainperf.commands import session

    settings = read_settings(flags)
    outputs.check_outputs(settings, command, ("--trace", settings.trace))
    if pid is not None and (module is not None or command):
        raise click.UsageError("--pid N says what is run: there is no script beside it")
    if from_trace is not None:
        if pid is not None or module is not None or command:
            raise click.UsageError("--from-trace FILE runs nothing: there is no script beside it")
        if settings.trace is not None:
            raise click.UsageError("--from-trace FILE runs nothing: there is no --trace to write")
        sys.exit(outputs.end_with_report(*session.from_trace(from_trace, settings), settings))
    if pid is not None:
        target, own = session.running_target(pid), None
    else:
        target = session.target(module, command, Path.cwd(), python=settings.python)
        own = ranks.find(os.environ)
    if own is not None:
        from trainperf.commands import observe_rank

        sys.exit(observe_rank.run(target, settings, own, console(stderr=True)))
    if target.job is None:
        ranks.check_alone(target.command, os.environ)
    saved = session.run(target, settings, console(stderr=True))
    sys.exit(outputs.end_with_report(*saved, settings))


@cli.command(short_help="Show a saved run again.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@options("full", "output_format", "patch")
def show(run: Path | None, **flags: Any) -> None:
    """Show a saved run again: its name, folder or JSON file [default: the latest]."""
    from trainperf import store

    settings = read_settings(flags)
    outputs.check_outputs(settings)
    path = run_folders.find(run, settings)
    diagnosis = store.load(path)
    if flags["patch"]:
        outputs.write_outputs(diagnosis, settings)
    saved = run_folders.saved_name(path.parent if path.name == store.DIAGNOSIS_FILE else path)
    wanted = outputs.parse(settings.output_format)
    outputs.write(diagnosis, wanted, settings, saved, flags["patch"] or "")


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@options("full", "output_format")
@click.option("--output", metavar="FILE", help="Save the diagnosis here, not in DIR.")
@options("patch", "fail_on", "ignore")
def merge(folder: Path, output: str | None, **flags: Any) -> None:
    """Join what the ranks of a job recorded in DIR into one report.

    Each rank that was started as `trainperf diagnose` left a record there. Ranks that
    are missing, and records that cannot be read, are named in the report.

    Exit status: as of `trainperf diagnose`; 2 where the records are not of one job.
    """
    from trainperf.commands import session

    settings = read_settings(flags)
    outputs.check_outputs(settings)
    file = Path(output) if output else None
    saved = session.merge(folder, file, settings, console(stderr=True))
    sys.exit(outputs.end_with_report(*saved, settings))


@cli.command(short_help="Write the fixes of a saved run into your files.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--only", multiple=True, metavar="FIX", help="Write this fix only, by its id; may "
              "be repeated.")  # fmt: skip
@click.option("--diff", "dry", is_flag=True, help="Print what would change and write nothing.")
def fix(run: Path | None, only: tuple[str, ...], dry: bool) -> None:
    """Write the fixes of a saved run into your files [default: the latest run].

    Files that were changed since the run are refused; then nothing is written at all.
    The files as they were are kept in the folder of the run. Of a notebook the code counts: its
    outputs may be others, and stay. Its edits are printed by cells.
    """
    from trainperf.patch import fix as fixing
    from trainperf.settings import ids_of

    ids = ids_of(only)
    if only and not ids:  # an empty variable, say: without --only all would be written
        raise click.UsageError("--only names no fix")
    fixed = fixing.fix(run_folders.find(run, read_settings({})), ids, dry)
    if dry:
        click.echo(fixed.diff.encode("utf-8", "surrogateescape"), nl=False)
    for line in fixed.lines:
        click.echo(line, err=dry)


@cli.command(short_help="Say what this machine is, and whether its parts fit each other.")
@click.option("--self-test", is_flag=True, help="Plant known causes and diagnose them: does the "
              "measuring hold here? Takes under two minutes.")  # fmt: skip
@click.option("--json", "json", type=click.Path(path_type=Path), metavar="FILE", help="Write the "
              "self-test as JSON, for a bug report.")  # fmt: skip
@options("quiet", "python")
def doctor(self_test: bool, json: Path | None, quiet: bool, python: str | None) -> None:
    """Say what this machine is and whether its parts fit each other.

    With --self-test, plant a loader that is hidden behind the step, a step that waits for its
    input, and a script that runs against itself; measure each as any script is measured; and
    compare with plain runs. All of it in a temporary folder.

    Exit status of the self-test: 0 the measuring holds here, 1 it does not, 2 it could not
    be told.
    """
    from trainperf.commands import doctor
    from trainperf.machine.doctor.examine import examine

    given_python = read_settings({"python": python}).python
    if self_test:
        sys.exit(doctor.self_test(json, quiet, console, given_python))
    if json is not None:
        raise click.UsageError("--json belongs to --self-test")
    doctor.render(examine(given_python), console())


for _command in (check, compare, explain, lint, sagemaker, try_):
    cli.add_command(_command)


def main() -> None:
    """Run the command line; errors become one line and a hint on stderr."""
    try:
        try:
            os.getcwd()
        except OSError as error:  # no path can be told from it
            text = "the working directory is no longer there"
            raise TrainperfError(text, hint="change into one that is: cd") from error
        cli(prog_name="trainperf", standalone_mode=False)
    except TrainperfError as error:
        _complain(str(error), error.hint)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        message, context = error.format_message(), getattr(error, "ctx", None)
        command = context.command_path if context is not None else "trainperf"
        if "\n" in message:  # the help, where a command has no words at all
            error.show()
        else:
            text = f"{message[:1].lower()}{message[1:].rstrip('.')}"
            _complain(text, f"see {command} --help")
        sys.exit(OUR_ERROR)
    except (click.Abort, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # pressed again, it changes nothing
        click.echo("trainperf: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        silence()
        sys.exit(DONE)
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        _stdout_failed(error)
    finally:
        try:
            close_stdout()
        except OSError as error:
            _stdout_failed(error)


def _stdout_failed(error: OSError) -> NoReturn:
    silence()
    _complain(f"cannot write to standard output: {error.strerror}")
    sys.exit(OUR_ERROR)


def _complain(text: str, hint: str = "") -> None:
    """Print what is wrong, and the next step below it."""
    tell(f"trainperf: {text}")
    if hint:
        click.echo(f"  {no_commands(one_line(hint))}", err=True)

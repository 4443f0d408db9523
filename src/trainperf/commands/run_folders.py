"""The folders of saved runs: a new one, the latest, one by its name."""

from __future__ import annotations

import datetime
import os
import re
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trainperf.errors import TrainperfError

if TYPE_CHECKING:
    from trainperf.settings import Settings

ALONE = 0o700
"""Mode of the folders of runs: they hold what the script printed, and sources that are run."""
OTHERS_WRITE = 0o022


def new_folder(settings: Settings, label: str) -> Path:
    """Make the folder of a new run. Raises `TrainperfError` where none can be made."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    name = re.sub(r"[^A-Za-z0-9.]+", "-", Path(label.split()[-1]).name).strip("-.") or "run"
    try:
        own(settings.output_dir)  # nothing is made in a folder of another's either
        for folder in (*reversed(settings.output_dir.parents), settings.output_dir):
            if not folder.exists():
                folder.mkdir(mode=ALONE, exist_ok=True)
        own(settings.output_dir)
        free, number = settings.output_dir / f"{stamp}-{name}", 1
        while True:  # never one that another run made
            with suppress(FileExistsError):
                free.mkdir(mode=ALONE)
                return free
            number += 1
            free = free.with_name(f"{stamp}-{name}-{number}")
    except OSError as error:
        raise TrainperfError(
            f"cannot write to {settings.output_dir}: {error.strerror}",
            hint="name another folder with --output-dir",
        ) from error


def own(folder: Path) -> None:
    """Raise `TrainperfError` where a folder of runs in the temporary folder is not the user's own.

    Its name can be foretold, and everybody may make it first: what stands in it is executed.
    """
    shared = Path(tempfile.gettempdir())
    ours = folder if folder.parent == shared else folder.parent
    if ours.parent != shared or not os.path.lexists(ours):
        return
    found = ours.lstat()
    others = stat.S_IMODE(found.st_mode) & OTHERS_WRITE
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or others:
        raise TrainperfError(
            f"{ours} is not a folder of yours alone: what it holds cannot be trusted",
            hint="name another folder with --output-dir, or remove that one",
        )


def saved_name(run: Path) -> str:
    """A folder or file as `trainperf show` takes it: its name where that looks by itself."""
    from trainperf.settings import load_settings

    kept_in = load_settings(Path.cwd(), os.environ, {}).output_dir
    return run.name if run.parent == kept_in else str(run)


def find(run: Path | None, settings: Settings) -> Path:
    """The report of a run, by name, folder or file; the latest one for None.

    Raises `TrainperfError` if there is none.
    """
    from trainperf import store

    own(settings.output_dir)
    if run is None:
        reports = store.diagnoses(settings.output_dir)
        if reports:
            return reports[-1]
        raise TrainperfError(
            f"no run is kept in {settings.output_dir}", hint="trainperf diagnose train.py makes one"
        )
    named = settings.output_dir / run
    return store.resolve_run(named if not run.exists() and named.exists() else run)

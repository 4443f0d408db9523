"""`%load_ext trainperf` and `%%trainperf`: a cell is diagnosed with what ran before it."""

from __future__ import annotations

import ast
import html
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainperf import store
from trainperf.errors import TrainperfError
from trainperf.model import Diagnosis
from trainperf.reporters import reporter
from trainperf.source.notebooks.ipython import as_python

MAGIC = "%%trainperf"


def register(shell: Any) -> None:
    """Give a shell the magic `%%trainperf`; from now on, cells that fail are kept in mind."""
    failed: set[str] = set()

    def ran(result: Any) -> None:
        (failed.discard if result.success else failed.add)(result.info.raw_cell)

    def diagnose_cell(line: str, cell: str) -> None:
        """Diagnose this cell: run it in a fresh process, after the cells that ran before it.

        Takes the options of `trainperf diagnose`. Nothing is run in the notebook itself.
        """
        typed = [*shell.history_manager.input_hist_raw[1:]]
        if not typed or not typed[-1].startswith(MAGIC):  # run without a history
            typed.append(MAGIC)
        _diagnose([*cells_before(typed[:-1], failed), f"{MAGIC} {line}\n{cell}"], line)

    shell.events.register("post_run_cell", ran)
    shell.register_magic_function(diagnose_cell, "cell", MAGIC.strip("%"))


def cells_before(typed: Sequence[str], failed: set[str]) -> Iterator[str]:
    """Yield the cells that ran before, one for each, so that the numbers stay those of `In`.

    In place of those that are left out stands a comment that says why: cells that failed, that
    ran before with the same text, and that were diagnosed themselves.
    """
    seen: dict[str, int] = {}
    for number, text in enumerate(typed, start=1):
        first = seen.setdefault(text.strip(), number)
        if text.startswith(MAGIC):
            yield "# diagnosed, not run"
        elif text in failed or not _parses(text):
            yield "# left out: it failed"
        elif first != number:
            yield f"# left out: the same as cell {first}"
        else:
            yield text if text.strip() else "# empty"


def _parses(text: str) -> bool:
    try:
        ast.parse(as_python(text)[0] if text.strip() else "")
    except (SyntaxError, ValueError):
        return False
    return True


def _diagnose(cells: Sequence[str], options: str) -> None:
    code = [{"cell_type": "code", "source": source} for source in cells]
    with tempfile.TemporaryDirectory(prefix="trainperf-") as folder:
        found = Path(folder, "diagnosis.json")
        try:
            with tempfile.NamedTemporaryFile(
                "w", prefix=".trainperf-", suffix=".ipynb", dir=os.getcwd(), encoding="utf-8"
            ) as notebook:
                json.dump({"cells": code, "metadata": {}, "nbformat": 4}, notebook)
                notebook.flush()
                name = os.path.basename(notebook.name)
                words = [*shlex.split(options), "--json", str(found), name]
                _run([sys.executable, "-P", "-m", "trainperf", "diagnose", *words])
        except (OSError, ValueError) as error:  # no file can be put here; an open quote
            print(f"trainperf: {error}", file=sys.stderr)
            return
        if found.exists():
            found.write_bytes(found.read_bytes().replace(name.encode(), b"notebook.ipynb"))
            try:  # without a command: that file is gone
                _show(replace(store.load(found), script=f"cell {len(cells)}", command=()))
            except TrainperfError as error:
                print(f"trainperf: {error}", file=sys.stderr)


def _run(command: Sequence[str]) -> None:
    """Run a command and pass on what it says on stderr; an interrupt asks it to come to an end."""
    env = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}  # a kernel's
    with subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        while True:
            try:
                for line in process.stderr:
                    sys.stderr.write(line.decode(errors="replace"))
                process.wait()
                return
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)


def _show(diagnosis: Diagnosis) -> None:
    """Show the report as the page that it is, in a frame; as text where no page can be shown."""
    from IPython.display import display  # type: ignore[import-not-found,unused-ignore]
    from rich.console import Console

    page = (reporter("html")(diagnosis) or "").replace('href="#', 'href="about:srcdoc#')
    frame = f'<div><iframe srcdoc="{html.escape(page)}" width="100%" height="640"></iframe></div>'
    text = io.StringIO()
    reporter("terminal")(
        diagnosis, Console(file=text, width=100, color_system=None, force_jupyter=False)
    )
    display({"text/html": frame, "text/plain": text.getvalue()}, raw=True)

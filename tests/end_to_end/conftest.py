"""Programs that run by themselves, observed, or with their text laid over other files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from kit.processes import events, native, observed, python
from trainperf import evidence
from trainperf.machine import inspect_machine
from trainperf.model import Ending, Evidence, Recording

TAG = sys.implementation.cache_tag
UNPATCHED = b"raise SystemExit('the text of the file ran')\n"


def as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else dedent(text).encode()


def addresses(text: str) -> str:
    return re.sub(r"at 0x[0-9a-f]+", "at 0x", text)


def caches(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.pyc")}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def same(tmp_path: Path, work: Path) -> Callable[..., Recording]:
    """Compare output, status and compiled files of a command as it is, and observed.

    `laid` (file name → text) runs a third time, from bytes that are laid over other files;
    its recording is returned, and that of the second where nothing is laid.
    """

    def compare(
        command: tuple[str, ...],
        laid: Mapping[str, str | bytes],
        others: Mapping[str, str | bytes] = {},
        cwd: Path = work,
        env: dict[str, str] | None = None,
        status: int = 0,
        before: bytes = UNPATCHED,
    ) -> Recording:
        for name, text in (*others.items(), *laid.items()):
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(as_bytes(text))
            path.chmod(0o755)
        alone = native(command, cwd, env)
        compiled = caches(work)
        assert alone.returncode == status, alone.stdout

        def seen(run: str, left: set[str], **sources: Mapping[str, bytes]) -> Recording:
            for name in compiled:
                (work / name).unlink(missing_ok=True)
            recording = observed(command, cwd, tmp_path / run, env, **sources)  # type: ignore[arg-type]
            output = (tmp_path / run / "output.log").read_text()
            assert addresses(output) == addresses(alone.stdout), run
            assert recording.exit_status == status
            assert caches(work) == left
            return recording

        recording = seen("observed", compiled)
        if not laid:
            return recording
        for name in laid:
            (work / name).write_bytes(before)
        stamps = {name: os.stat(work / name).st_mtime_ns for name in laid}
        theirs = compiled - {
            str(Path(name).parent / "__pycache__" / f"{Path(name).stem}.{TAG}.pyc") for name in laid
        }
        sources = {str(work / name): as_bytes(text) for name, text in laid.items()}
        recording = seen("laid over", theirs, sources=sources)
        for name, stamp in stamps.items():
            assert (work / name).read_bytes() == before
            assert os.stat(work / name).st_mtime_ns == stamp
        assert {event["file"] for event in events(recording, "patched")} == set(sources)
        return recording

    return compare


@pytest.fixture(scope="module")
def kept() -> dict[tuple[str, ...], tuple[Recording, Evidence]]:
    return {}


@pytest.fixture
def run(
    tmp_path: Path, kept: dict[tuple[str, ...], tuple[Recording, Evidence]]
) -> Callable[..., tuple[Recording, Evidence]]:
    """Run a script under observation, or recall that a test of this file did."""

    def once(*command: str, **settings: float) -> tuple[Recording, Evidence]:
        if (*command, *settings) not in kept:
            folder = tmp_path / "work"
            folder.mkdir()
            loops = Path(__file__).parent
            env = {
                "PYTHONPATH": os.pathsep.join((str(loops / "loops"), str(loops / "torch_loops"))),
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "CUDA_VISIBLE_DEVICES": "",
                "OMP_NUM_THREADS": "1",  # threads that spin where cores are taken make 20 ms steps
                "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled"),
            }
            times = {"measure_s": 1.5, "extra_s": 1.5} | settings
            recording = observed(python(*command), folder, tmp_path / "run", env, **times)
            assert recording.ending is Ending.MEASURED, recording.output_tail
            assert [event["text"] for event in events(recording, "note")] == []
            assert "Traceback" not in recording.output_tail
            assert list(folder.iterdir()) == []
            read = evidence.read(recording, inspect_machine(directory=folder))
            kept[*command, *settings] = recording, read
        return kept[*command, *settings]

    return once

"""The files a script reads are seen, whoever opens them; the script keeps its own count."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kit.processes import events, observed, patient, script
from trainperf.evidence import reads, stages
from trainperf.evidence.events import choose
from trainperf.evidence.timing import times
from trainperf.machine.storage.reads import Found, examined, of_files
from trainperf.model import Reads, Recording


def probe(recording: Recording, **given: Any) -> Found:
    return examined(of_files(recording), **given)


pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

FILES = 64
SIZE = 20_000
BATCH = 8

TORCH = """
    import json, os, sys, time
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Dataset

    folder, kind, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])


    class Recordings(Dataset):
        def __init__(self):
            self.count = open(os.path.join(folder, "..", f"count-{{os.getpid()}}"), "ab", 0)
            self.mapped = None
            if kind == "mapped":
                self.mapped = np.memmap(os.path.join(folder, "0.bin"), np.uint8, "r")

        def __len__(self):
            return {files}

        def __getitem__(self, index):
            time.sleep(0.0005)
            if kind == "mapped":
                data = bytes(self.mapped[index * 100 : index * 100 + 100])
            else:
                with open(os.path.join(folder, f"{{index}}.bin"), "rb") as file:
                    data = file.read()
                os.write(self.count.fileno(), b"x")
            return torch.frombuffer(bytearray(data[:100]), dtype=torch.uint8).float()


    if __name__ == "__main__":
        torch.set_num_threads(1)
        model = torch.nn.Linear(100, 1)
        optimizer = torch.optim.SGD(model.parameters(), 1e-6)
        loader = DataLoader(
            Recordings(), {batch}, shuffle=True, num_workers=workers,
            persistent_workers=workers > 0,
        )
        for epoch in range(2000):
            for batch in loader:
                optimizer.zero_grad()
                model(batch).mean().backward()
                optimizer.step()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir()
    for number in range(FILES):
        (made / f"{number}.bin").write_bytes(bytes(range(200)) * (SIZE // 200))
    return made


def watched(folder: Path, source: str, *words: str) -> tuple[Recording, tuple[Reads, ...]]:
    source = source.format(files=FILES, batch=BATCH)
    path = script(folder.parent, source)
    run = folder.parent / "run"
    run.mkdir()
    recording = observed(
        (sys.executable, str(path), str(folder), *words),
        folder.parent,
        run,
        patient(),
        measure_s=1.5,
        extra_s=1.0,
    )
    assert recording.ending.value == "measured", recording.output_tail
    found = probe(recording)
    loop = choose(recording)
    taken = times(loop)
    return recording, reads(found, loop, taken.resident_, stages(loop, taken.input_))


def counted(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.parent.glob("count-*"))


def of_data(found: Sequence[Reads], folder: Path) -> Reads:
    (one,) = [one for one in found if any(str(folder) in path for path in one.examples)]
    return one


def test_a_loaders_files_are_seen_in_its_process(folder: Path) -> None:
    recording, found = watched(folder, TORCH, "opened", "0")

    one = of_data(found, folder)
    assert (one.files, one.sizes, one.total_bytes) == (FILES, (SIZE,) * 3, FILES * SIZE)
    # the script counts from its first batch on, and goes on while the rest is measured
    assert 0.4 * counted(folder) < one.opens <= counted(folder)
    assert one.opens_per_step == pytest.approx(BATCH, rel=0.3)
    assert one.bytes_per_step == pytest.approx(BATCH * SIZE, rel=0.3)
    assert one.volume.mount
    assert len(events(recording, "reads")) == 1
    json.dumps(events(recording, "reads"))


@pytest.mark.long
def test_a_loaders_files_are_seen_in_its_workers(folder: Path) -> None:
    _, found = watched(folder, TORCH, "opened", "2")

    one = of_data(found, folder)
    assert (one.files, one.total_bytes) == (FILES, FILES * SIZE)
    assert 0.4 * counted(folder) < one.opens <= counted(folder)
    assert one.opens_per_step == pytest.approx(BATCH, rel=0.3)
    assert one.bytes_per_step == pytest.approx(BATCH * SIZE, rel=0.3)


@pytest.mark.long
def test_a_file_that_is_mapped_is_seen(folder: Path) -> None:
    _, found = watched(folder, TORCH, "mapped", "0")

    one = of_data(found, folder)
    assert (one.files, one.opens, one.total_bytes) == (1, 0, SIZE)
    assert one.bytes_per_step is None

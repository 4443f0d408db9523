"""The files a script reads are seen, whoever opens them; the script keeps its own count."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kit.processes import events, observed, patient, script
from trainperf.evidence import reads, stages
from trainperf.evidence.events import choose
from trainperf.evidence.timing import times as times_of
from trainperf.machine.storage.reads import examined, of_files
from trainperf.model import Reads, Recording

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

FILES = 64
SIZE = 20_000
BATCH = 8

TORCH = """
    import os, sys, time
    import torch
    from torch.utils.data import DataLoader, Dataset

    folder = sys.argv[1]


    class Recordings(Dataset):
        def __init__(self):
            self.count = open(os.path.join(folder, "..", f"count-{{os.getpid()}}"), "ab", 0)

        def __len__(self):
            return {files}

        def __getitem__(self, index):
            time.sleep(0.0005)
            with open(os.path.join(folder, f"{{index}}.bin"), "rb") as file:
                data = file.read()
            os.write(self.count.fileno(), b"x")
            return torch.frombuffer(bytearray(data[:100]), dtype=torch.uint8).float()


    if __name__ == "__main__":
        torch.set_num_threads(1)
        model = torch.nn.Linear(100, 1)
        optimizer = torch.optim.SGD(model.parameters(), 1e-6)
        loader = DataLoader(Recordings(), {batch}, shuffle=True)
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


def watched(folder: Path) -> tuple[Recording, tuple[Reads, ...]]:
    path = script(folder.parent, TORCH.format(files=FILES, batch=BATCH))
    run = folder.parent / "run"
    command = (sys.executable, str(path), str(folder))
    times = {"measure_s": 1.5, "extra_s": 1.0}
    recording = observed(command, folder.parent, run, patient(), **times)
    assert recording.ending.value == "measured", recording.output_tail
    loop = choose(recording)
    taken = times_of(loop)
    found = examined(of_files(recording))
    return recording, reads(found, loop, taken.resident_, stages(loop, taken.input_))


def test_a_loaders_files_are_seen_in_its_process(folder: Path) -> None:
    recording, found = watched(folder)

    (one,) = [one for one in found if any(str(folder) in path for path in one.examples)]
    assert (one.files, one.sizes, one.total_bytes) == (FILES, (SIZE,) * 3, FILES * SIZE)
    counted = sum(path.stat().st_size for path in folder.parent.glob("count-*"))
    # the script counts from its first batch on, and goes on while the rest is measured
    assert 0.4 * counted < one.opens <= counted
    assert one.opens_per_step == pytest.approx(BATCH, rel=0.3)
    assert one.bytes_per_step == pytest.approx(BATCH * SIZE, rel=0.3)
    assert one.volume.mount
    assert len(events(recording, "reads")) == 1
    json.dumps(events(recording, "reads"))

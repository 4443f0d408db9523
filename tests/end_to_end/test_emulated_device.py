"""A diagnosis of a script whose device runs later than the host: an emulated one.

The nightly tests of the GPU kit, which is emulated there, make whole ones.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kit.processes import reported

pytest.importorskip("torch")

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

TESTS = Path(__file__).parents[1]
CLOSE = 0.05


@pytest.mark.sentinel
@pytest.mark.timeout(300)
def test_a_copy_that_is_hidden_beside_the_step_is_no_cost(tmp_path: Path) -> None:
    shutil.copy(TESTS / "end_to_end/seeds/torch_emulated.py", tmp_path / "train.py")
    library = tmp_path / "site-packages"  # what waits in it is no function of the script's own
    shutil.copytree(TESTS / "emulation", library / "emulation")
    env = {"KIND": "prefetched", "EMULATION": str(library)}
    report = reported(tmp_path, "--no-trials", "train.py", env=env)
    assert report["evidence"]["loop"]["clock"] == "CUDA events"
    for phase in ("real", "resident"):
        assert report["evidence"]["times"][phase]["seconds"] == pytest.approx(0.060, rel=CLOSE)
    assert report["verdict"]["bottleneck"] not in ("input", "host", "storage")
    assert "torch_transfers" not in [one["id"] for one in report["findings"]]
    copies = [one for one in report["evidence"]["torch"]["split"] if one["name"] == "transfer"]
    assert all(one["seconds"] < 0.05 * 0.060 for one in copies)

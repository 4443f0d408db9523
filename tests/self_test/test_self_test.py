"""The whole self-test on this machine: minutes in all, for the nightly workflow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.processes import patient
from trainperf.self_test import self_test

TESTS = Path(__file__).parents[1]

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_the_self_test_says_that_the_measuring_holds_or_that_it_could_not_be_told(
    framework: str, tmp_path: Path
) -> None:
    pytest.importorskip(framework)
    report = tmp_path / "self-test.json"
    done = subprocess.run(
        (
            sys.executable, "-m", "trainperf", "doctor", "--self-test", "--framework", framework,
            "--json", str(report),
        ),
        cwd=tmp_path, env=patient(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 2), done.stdout + done.stderr  # 2: neighbours were in the way
    told = json.loads(report.read_text())
    assert told["holds"] is (True if done.returncode == 0 else None)
    assert told["seconds"] < 150
    names = {one["name"] for one in told["lines"]}
    assert {"hidden loader: step", "hidden loader: findings", "starvation: step"} <= names
    assert not [one for one in told["lines"] if one["status"] == "problem"]
    if done.returncode == 0:
        figures = {one["name"]: one for one in told["figures"]}
        assert figures["starvation: repair"]["expected"] > 1.3
        assert figures["hidden loader: made faster"]["expected"] == 1
    for private in (str(tmp_path), str(Path.home()), "trainperf-self-test-"):
        assert private not in report.read_text()


@pytest.mark.timeout(240)
def test_on_a_device_that_runs_later_the_loader_is_hidden_by_lateness() -> None:
    pytest.importorskip("torch")

    def emulated(source: str) -> str:
        begin = (
            f"import sys\nsys.path.insert(0, {str(TESTS)!r})\n"
            "from emulation import fake_cuda\nqueue = fake_cuda.install().launch\n"
        )
        return (
            source.replace("parser = argparse", f"{begin}parser = argparse", 1)
            .replace('"cuda" if GPU else "cpu"', '"cpu"')
            .replace("pin_memory=GPU", "pin_memory=False")
            .replace("cuda._sleep(", "(lambda cycles: queue(cycles / 1e9))(")
        )

    test = self_test(print, "torch", 140.0, emulated)
    assert test.device == "Emulated device"
    assert test.holds is not False, test.lines
    figures = {one.name: one for one in test.figures}
    assert figures["hidden loader: step"].expected == pytest.approx(0.050, rel=0.1)
    assert figures["hidden loader: step"].status == "ok", test.lines

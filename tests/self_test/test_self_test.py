"""The whole self-test on this machine: minutes in all, for the nightly workflow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainperf.self_test.experiments import self_test
from trainperf.self_test.judging import as_json

TESTS = Path(__file__).parents[1]

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_the_self_test_says_that_the_measuring_holds_or_that_it_could_not_be_told(
    framework: str, tmp_path: Path
) -> None:
    pytest.importorskip(framework)
    found = self_test(print, framework)
    told = json.loads(as_json(found))
    assert told["seconds"] < 150
    names = {one["name"] for one in told["lines"]}
    assert {"hidden loader: step", "hidden loader: findings", "starvation: step"} <= names
    assert not [one for one in told["lines"] if one["status"] == "problem"]
    if found.holds:
        figures = {one["name"]: one for one in told["figures"]}
        assert figures["starvation: repair"]["expected"] > 1.3
    for private in (str(tmp_path), str(Path.home()), "trainperf-self-test-"):
        assert private not in as_json(found)


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

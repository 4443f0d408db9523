"""Two diagnoses at once of one script, in one folder and with one folder of runs."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from faults.harness import GOOD, NOT_MEASURED, Place, Result, ended, trains
from kit.legs import LOOP
from trainperf.run.sweeping import sweep


def both(place: Place, *words: str, many: int = 2) -> list[Result]:
    """Diagnose so many times at once."""
    with ThreadPoolExecutor(many) as pool:
        return list(pool.map(lambda _: place.diagnose(*words), range(many)))


@pytest.mark.script
def test_scripts_that_end_at_once_have_a_folder_each(place: Place) -> None:
    place.with_script("open('written', 'w').close(); raise SystemExit('the end')")
    results = both(place, "--no-trials", many=4)
    for result in results:
        place.check(result, NOT_MEASURED, ["the end"], shown=False)
    assert len({run.name for run in place.runs.glob("*/diagnosis.json")}) == 1
    assert len(list(place.runs.glob("*/diagnosis.json"))) == 4


@pytest.mark.alone  # what another test left would be swept
def test_neither_sweeps_the_other(place: Place) -> None:
    place.with_script(
        LOOP + "print('ready', flush=True)\ntrain(lambda number: time.sleep(0.002))\n"
    )
    first = place.start(
        "diagnose", "--no-trials", "--budget", "5s", "--output-dir", str(place.runs), "train.py"
    )
    second = place.diagnose("--no-trials", "--budget", "2s")
    assert sweep(place.runs) == []
    result = ended(first)
    assert "earlier run" not in second.stderr
    assert "earlier run" not in result.stderr
    place.check_nothing_left()
    assert len(list(place.runs.glob("*/diagnosis.json"))) == 2


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_whole_diagnoses_at_once_do_each_other_no_harm(place: Place) -> None:
    place.with_script(trains(first="open('written', 'w').close()"))
    results = both(place, "--budget", "45s")
    for result in results:
        place.check(result, GOOD, ["steps"], shown=False)
        assert "earlier run" not in result.stderr
    reports = [json.loads(file.read_text()) for file in place.runs.glob("*/diagnosis.json")]
    assert len(reports) == 2
    assert all(report["loop"] and report["trying"] for report in reports)
    for run in place.runs.iterdir():
        again = ended(place.start("show", str(run)))
        assert any(
            again.stdout.splitlines()[:3] == result.stdout.splitlines()[:3] for result in results
        )

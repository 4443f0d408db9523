"""The diagnosis of a job of two ranks with its trials; the zoo's oracle has the other examples'."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from kit.processes import reported, tries

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

SCRIPT = Path(__file__).parents[2] / "examples" / "ddp_accumulation.py"
TWO = ("--", sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
FIX = "torch_ddp_no_sync"

TRIES = 3
"""A neighbour's burst may hide a cause in one run; it does not hide it in three."""

Report = dict[str, Any]


@pytest.mark.timeout(600)
def test_no_sync_is_tried_on_the_whole_job_and_kept(tmp_path: Path) -> None:
    wrong = ""
    for attempt in tries(SCRIPT.name, TRIES):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        shutil.copy(SCRIPT, folder)
        report = reported(folder, "--only", FIX, *TWO, SCRIPT.name)
        assert re.search(r"^(Ranks|Exchange of gradients)$", report["stdout"], re.MULTILINE)
        _describes_the_job(report)
        wrong = _wrong(report)
        if not wrong:
            return
    pytest.fail(wrong)


def _describes_the_job(report: Report) -> None:
    """Who took part, and how they exchange: certain, however busy the machine is."""
    job, exchange = report["evidence"]["parallel"], report["evidence"]["parallel"]["exchange"]
    assert (job["expected"], job["replicas"], job["hosts"]) == (2, 2, 1)
    assert (job["absent"], job["launcher"]) == ([], "torchrun")
    assert [(one["rank"], one["ended"]) for one in job["processes"]] == [
        (0, "measured"),
        (1, "measured"),
    ]
    assert all(
        one["real"]["seconds"] > 0 and one["local"]["seconds"] > 0 for one in job["processes"]
    )
    assert (exchange["method"], exchange["backend"]) == ("DistributedDataParallel", "gloo")
    assert (exchange["replicas"], exchange["all_reduce"]["devices"], len(job["ddp"])) == (2, 2, 1)
    assert sum(exchange["buckets"]) > 0


def _wrong(report: Report) -> str:
    """The faults of a report, or nothing."""
    verdict, exchange = report["verdict"], report["evidence"]["parallel"]["exchange"]
    said = f"{verdict['text']} Findings: {[one['id'] for one in report['findings']] or 'none'}"
    kept = [trial["fix"] for trial in report["trials"] if trial["kept"]]
    if verdict["bottleneck"] != "sync" or "exchange of gradients" not in verdict["text"]:
        return f"expected the exchange in the verdict: {said}"
    cost = exchange["seconds"]
    if not 0 < cost["low"] <= cost["seconds"] <= cost["high"]:
        return f"expected a cost beyond the noise: {exchange}"
    if FIX not in kept or report["patch"]["findings"][:1] != [FIX]:
        return f"expected {FIX} to be kept and first in the patch: {report['trials']}"
    return "" if exchange["bytes"] > 2**20 else f"expected MiBs of gradients: {exchange}"

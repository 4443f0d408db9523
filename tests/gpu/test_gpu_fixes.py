"""Repairs that only a GPU shows: precision, compiling, waits in the loop, pinned batches."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_kit import PLAIN_S, SCRIPTS, Place, kept, nothing_about_input, on_gpu

RATES = (("flops", "base_s"), ("product_flops", "candidate_s"))
PROVEN_S = 2 * PLAIN_S + 62
"""Two plain runs, a diagnosis of 60 s, and its repair."""


def proven(
    place: Place, script: str, fix: str, allowed: float = 0.05, budget: str = "60s"
) -> dict[str, Any]:
    """The report in which one fix is kept, which gives in a plain run what its trial said."""
    before = place.plain(script)
    report = place.diagnosed(script, options=("--budget", budget, "--only", fix))
    kept(report, fix)
    place.fixed(report)
    after = place.plain(script)
    place.row(fix, before / after, report["stack"]["speedup"], allowed)
    return report


@pytest.mark.timeout(300)
@on_gpu(seconds=PROVEN_S)
def test_tf32_is_kept_for_float32_linears(place: Place) -> None:
    report = proven(place, "linears.py", "torch_matmul_precision", allowed=0.10)
    probe = report["evidence"]["probes"]["matmul_rate"]
    rates = [probe["detail"][of] / probe[seconds] for of, seconds in RATES]
    place.row("large linears beside one large product", 1.0, rates[0] / rates[1], 0.3)


@pytest.mark.timeout(300)
@on_gpu(seconds=PROVEN_S)
def test_autocast_is_kept_for_float32_linears(place: Place) -> None:
    proven(place, "linears.py", "torch_autocast", allowed=0.10)


@pytest.mark.timeout(400)
@on_gpu(seconds=PROVEN_S + 35)  # it compiles, in the trial and after it
def test_compiling_is_kept_for_a_chain_of_gelus_and_norms(place: Place) -> None:
    proven(place, "chain.py", "torch_compile", budget="90s")


@pytest.mark.timeout(400)
@on_gpu(seconds=PROVEN_S)
def test_a_fused_optimizer_is_kept_for_300_tiny_kernels(place: Place) -> None:
    proven(place, "tiny.py", "torch_fused_optimizer")


@pytest.mark.timeout(200)
@on_gpu(seconds=30)
def test_each_line_that_waits_for_the_device_is_named(place: Place) -> None:
    report = place.diagnosed("waits.py", options=("--budget", "30s", "--no-trials"))
    why = (report["ending"], report["not_measured"])
    torch = report["evidence"]["torch"]
    assert isinstance(torch["split"], list), f"no step was taken apart: {why}"
    assert torch["syncs"], f"steps were taken apart, and no wait was seen in them: {why}"
    source = (SCRIPTS / "waits.py").read_text().splitlines()
    marked = {
        number: line.rpartition("# ")[2]
        for number, line in enumerate(source, 1)
        if line.rpartition("# ")[2] in ("a mask", "nonzero", "item")
    }
    named = {one["where"]["line"] for one in torch["syncs"]}
    named |= {site["line"] for one in report["findings"] for site in one["where"]}
    missing = [what for line, what in marked.items() if line not in named]
    assert not missing, (missing, torch["syncs"], report["findings"])
    modes = place.modes.read_text()
    assert modes[-1] == "0", f"the debug mode of the last steps was {modes[-20:]}"


@pytest.mark.timeout(300)
@on_gpu(seconds=PROVEN_S)
def test_pinning_is_kept_for_large_pageable_batches(place: Place) -> None:
    proven(place, "batches.py", "torch_pin_memory")


@pytest.mark.timeout(200)
@on_gpu(seconds=PLAIN_S + 25)
def test_copies_on_a_side_stream_are_no_cost(place: Place) -> None:
    words = ("batches.py", "--ahead")
    plain = place.plain(*words)
    report = place.diagnosed(*words, options=("--budget", "25s", "--no-trials"))
    place.row("a step", plain, report["evidence"]["times"]["real"]["seconds"], 0.03)
    nothing_about_input(report)
    assert "torch_pin_memory" not in [one["id"] for one in report["findings"]]
    assert "torch_transfers" not in [one["id"] for one in report["findings"]]

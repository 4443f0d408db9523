"""Whether a speed is what the device gives is told by two rates of one run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reporters.samples import first
from trainperf.model import Probe
from trainperf.report.document import Page, plain_text
from trainperf.report.sections.step import step


@pytest.mark.parametrize(
    ("base_s", "healthy", "said"),
    [
        (
            2.0,
            True,
            "1.00 GFLOP/s in each step, 25 % of what one large float32 matrix product reaches here",
        ),
        (0.8, False, "2.50 GFLOP/s in each step, 62 % of what one large float32 matrix product"),
        (0.8, True, "product reaches here: the device does what it can"),
    ],
)
def test_a_rate_stands_beside_that_of_a_large_product(
    base_s: float, healthy: bool, said: str
) -> None:
    detail = {"flops": 2e9, "product_flops": 1e9, "dtype": "float32", "of": "each step"}
    probe = Probe("matmul_rate", base_s, 0.25, 1.0, 1.0, 1.0, detail=detail)
    before = first("healthy")
    found = replace(
        before,
        evidence=replace(before.evidence, probes={"matmul_rate": probe}),
        verdict=replace(before.verdict, healthy=healthy),
    )
    page = Page()
    step(found, page)
    fact = page.blocks[-1]
    text = plain_text(fact.words)
    assert said in text
    assert ("does what it can" in text) == ("does what" in said)

"""Whether the speed of the model is what its device gives."""

from __future__ import annotations

from trainperf.model import Diagnosis, Probe
from trainperf.model import words as units
from trainperf.report.document import STEP, Page, Section
from trainperf.report.sections.step import LABEL

ALL_IT_CAN = 0.5
"""Share of a large product's rate from which a device, in a step without a finding, does so.

Well tuned trainings of large language models reach 46 to 52 % of the peak rate of their
accelerators (PaLM, https://arxiv.org/abs/2204.02311, table 3), and large products 80 to 90 %.
"""

SAME = 0.95
"""Share from which the rates are the same, as far as the noise of a probe lets on."""


def speed(diagnosis: Diagnosis, page: Page) -> None:
    """Print the rate of the model's products, and its share of that of one large product."""
    probe = diagnosis.evidence.probes.get("matmul_rate")
    if not isinstance(probe, Probe):
        return
    flops, of_product = probe.detail["flops"], probe.detail["product_flops"]
    reached = flops / probe.base_s
    share = reached / (of_product / probe.candidate_s)
    of = f"one large {probe.detail['dtype']} matrix product reaches here"
    compared = f"{units.share(share)} of what" if share < SAME else "what"
    text = f"{_rate(reached)} in {probe.detail['of']}, {compared} {of}"
    if share >= ALL_IT_CAN and diagnosis.verdict.healthy:
        text += ": the device does what it can"
    page.fact("Speed", text, LABEL)


def _rate(flops: float) -> str:
    """Write operations a second: "23.1 GFLOP/s"."""
    for unit, size in (("TFLOP/s", 1e12), ("GFLOP/s", 1e9)):
        if flops >= size:
            return f"{units.number(flops / size)} {unit}"
    return f"{units.number(flops / 1e6)} MFLOP/s"


def _computes(diagnosis: Diagnosis) -> bool:
    return diagnosis.verdict.healthy or diagnosis.verdict.bottleneck == "model"


SECTIONS = (Section("speed", STEP + 25, speed, speed, _computes, side="step"),)

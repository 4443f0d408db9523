"""When a job is called sync-bound, and by what."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.model import Verdict
from trainperf.verdict import verdict

GRADIENTS = "ddp_large_gradients | parallel.exchange.seconds = 0.034"
"""Half of a step of 68 ms, which sends 40 MiB."""


def said(case: str) -> Verdict:
    return verdict(evidence_of(case), ())


# ------------------------------------------------------------------- what must stay silent


@pytest.mark.parametrize(
    "case",
    [
        "ddp_large_gradients",  # its interval is not known
        "ddp_large_gradients | parallel.exchange.seconds = 0.0065",  # less than a tenth
        "ddp_large_gradients | parallel.exchange.seconds = 0.02 ± 0.02",  # within the noise
        "ddp_large_gradients | parallel.exchange.seconds = missing",
        "ddp_large_gradients | parallel.exchange = null",
        "ddp_straggler | parallel.stragglers[0].share = 0.09",
    ],
)
def test_what_costs_a_job_little_or_nobody_knows_how_much_is_no_sync(case: str) -> None:
    assert said(case).bottleneck != "sync"


@pytest.mark.parametrize(
    "less", ["parallel.stragglers[0].behind_s = 0.003", "parallel.exchange.seconds = 0.012"]
)
def test_an_input_that_costs_all_ranks_more_stays_the_verdict(less: str) -> None:
    case = f"ddp_straggler | seen = null; times.input = 0.02; {less}"  # 18.5 ms are lost to it
    assert said(case).bottleneck == "input"


# --------------------------------------------------------------------------- what is said


@pytest.mark.parametrize(
    ("seconds", "healthy", "says"),
    [
        (
            "0.02 ± 0.02",
            False,
            "the exchange of gradients: it may take anything up to 59 % of a step",
        ),
        ("0.007 ± 0.007", True, "(the exchange of gradients is up to 21 %)"),
        ("0.001 ± 0.001", True, "nothing that trainperf knows would make it faster"),
    ],
)
def test_an_exchange_that_the_noise_hides_is_named_as_what_it_may_be(
    seconds: str, healthy: bool, says: str
) -> None:
    answer = said(
        f"ddp_large_gradients | parallel.exchange.seconds = {seconds}; times.resident = 0.067; "
        "probes.compile = 1.0"
    )
    assert answer.healthy is healthy
    assert says in answer.text
    assert ("exchange" in answer.text) is ("exchange" in says)


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (
            f"{GRADIENTS}; parallel.processes[1].local = missing",
            ", or in waiting for rank 1 that left no step; each sends 40.0 MiB a step.",
        ),
        (f"{GRADIENTS}; parallel.exchange.replicas = 8", "between 8 replicas in 2 ranks ("),
        (f"{GRADIENTS}; times.resident = missing", "between 2 ranks (DistributedDataParallel,"),
        (
            "mirrored_rnn | parallel.exchange.seconds = 0.02; times.real = 0.03",
            "gradients between 2 replicas (MirroredStrategy, CollectiveAllReduce (RING));",
        ),
        # it is short alone: most of it is waiting for whoever is late
        ("ddp_compute_bound | parallel.exchange.seconds = 0.03", "takes 587 µs alone."),
        # the larger of exchange and straggler
        (
            (
                "ddp_straggler | parallel.exchange.seconds = 0.012; "
                "parallel.exchange.all_reduce = missing"
            ),
            "the exchange of gradients between 2 ranks",
        ),
        ("ddp_straggler | parallel.exchange.seconds = 0.009", "waiting for rank 1, whose own"),
        # though the step waits for its input
        ("ddp_straggler | seen = null; times.input = 0.012", "waiting for rank 1, whose own"),
        (
            (
                'ddp_straggler | parallel.stragglers[0].phase = "step"; '
                'parallel.stragglers[0].cause = ""'
            ),
            "whose own step takes 13.6 ms, that of rank 0 3.47 ms.",
        ),
        (
            (
                'ddp_straggler | parallel.stragglers[+] = {"rank": 2, "phase": "input", '
                '"behind_s": 0.005, "share": 0.2}'
            ),
            "waiting for rank 1 (and 1 more), whose own",
        ),
        (
            "ddp_straggler | parallel.processes[1].local = missing",
            "Sync-bound: 47 % of each step passes in waiting for rank 1: its input takes 13.9 ms",
        ),
    ],
)
def test_a_job_that_waits_for_its_exchange_or_a_rank_is_sync_bound(case: str, says: str) -> None:
    answer = said(case)
    assert answer.bottleneck == "sync"
    assert says in answer.text

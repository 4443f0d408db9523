"""Collate functions that are written around a loader's own cut what they should."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import zoo
from fixes.case_text import evidence_of, repair
from rewriting import changed, executed, script_of
from trainperf.diagnose import Request
from trainperf.diagnose.judging import first_verdict
from trainperf.fixes.dataloader.padding import TorchPadding
from trainperf.model import Equivalence, PaddedPlace

torch = pytest.importorskip("torch")

LOADER = """\
import torch

{collate}
loader = ▸torch.utils.data.DataLoader(data, batch_size=3{given})◂
"""


def batches(data: list[Any], place: PaddedPlace, collate: str = "", given: str = "") -> list[Any]:
    script, sites = script_of(LOADER.format(collate=collate, given=given))
    repair("torch_padding", script, sites, {"place": asdict(place)})
    text = changed(script)
    names = executed(text, {"data": data})
    return list(names["loader"])


def row(*tokens: int, pad: int = 0, steps: int = 10) -> Any:
    return torch.tensor([*tokens, *[pad] * (steps - len(tokens))])


def test_tuples_are_cut_where_they_go_along() -> None:
    data = [(row(1, 2, 3), 0, row(1)), (row(4), 1, row(1)), (row(5, 0, 6, 7), 1, row(1))]
    (batch,) = batches(data, PaddedPlace("list", 0, (0, 2)))

    assert batch[0].tolist() == [[1, 2, 3, 0], [4, 0, 0, 0], [5, 0, 6, 7]]
    assert [tuple(each.shape) for each in batch] == [(3, 4), (3,), (3, 4)]
    assert batch[0].is_contiguous()


def test_dictionaries_and_other_paddings_are_cut() -> None:
    data = [{"ids": row(0, 2, pad=9), "label": 1}, {"ids": row(3, pad=9), "label": 0}]
    (batch,) = batches(data, PaddedPlace("dict", "ids", ("ids",), value=9))

    assert batch["ids"].tolist() == [[0, 2], [3, 9]]
    assert batch["label"].tolist() == [1, 0]


def test_features_are_cut_behind_the_last_that_is_not_zero() -> None:
    clip = torch.zeros(10, 2)
    clip[:4, 1] = 1.0
    (batch,) = batches([clip, torch.zeros(10, 2)], PaddedPlace("tensor", 0, (0,), features=True))

    assert tuple(batch.shape) == (2, 4, 2)


def test_a_batch_of_nothing_but_padding_keeps_a_step() -> None:
    (batch,) = batches([row(), row()], PaddedPlace("tensor", 0, (0,)))

    assert tuple(batch.shape) == (2, 1)


def test_the_users_collate_function_goes_on() -> None:
    collate = "def own(samples):\n    return torch.stack(samples) + 1, len(samples)\n"
    place = PaddedPlace("tuple", 0, (0,), value=1)
    (batch,) = batches([row(4, 5), row(6)], place, collate, ", collate_fn=own")

    assert isinstance(batch, tuple)
    assert (batch[0].tolist(), batch[1]) == ([[5, 6], [7, 1]], 2)


@pytest.mark.parametrize("collate", ["to_longest = 3\n", "def to_longest(x):\n    return x\n"])
def test_a_file_that_has_the_name_keeps_it(collate: str) -> None:
    (batch,) = batches([row(4, 5), row(6)], PaddedPlace("tensor", 0, (0,)), collate)

    assert batch.shape[1] == 2


@pytest.mark.parametrize(
    ("masked", "equivalence"),
    [
        ("true", Equivalence.NUMERICS),
        ("false", Equivalence.SEMANTICS),
        ("null", Equivalence.SEMANTICS),
    ],
)
def test_what_a_model_reads_of_the_padding_changes_the_experiment(
    masked: str, equivalence: Equivalence
) -> None:
    evidence = evidence_of(
        'ddp_compute_bound | padding = {"mean_length": 58, "padded_length": 400, '
        f'"bucketed_length": 75, "sequences": 640, "masked": {masked}}}'
    )
    cause = TorchPadding().look(evidence)
    assert cause is not None
    assert cause.equivalence is equivalence


@pytest.mark.parametrize("given", ["", ", shuffle=True", ", shuffle=True, drop_last=True"])
def test_batches_taken_whole_are_those_that_were_stacked(given: str) -> None:
    text = f"import torch\n\nloader = ▸torch.utils.data.DataLoader(data, 4{given})◂\n"
    script, sites = script_of(text)
    before = executed(script.source(sites[0].file).text, {"data": PAIRS})["loader"]
    repair("torch_whole_batches", script, sites, {})
    after = executed(changed(script), {"data": PAIRS})["loader"]
    assert len(after) == len(before)
    seen = []
    for loader in (before, after):
        torch.manual_seed(3)
        seen.append([list(loader), torch.rand(1)])
    (stacked, drew), (whole, drew_after) = seen
    assert drew == drew_after
    for old, new in zip(stacked, whole, strict=True):
        assert type(old) is type(new)
        assert all(
            one.dtype == other.dtype and one.equal(other)
            for one, other in zip(old, new, strict=True)
        )


PAIRS = torch.utils.data.TensorDataset(torch.randn(10, 3), torch.arange(10))


@pytest.mark.parametrize("name", ["torch_padding", "torch_length_batches"])
def test_only_a_model_that_was_run_without_its_padding_has_a_bound(name: str) -> None:
    recorded = zoo.load("padded_to_the_longest_of_all")
    assert recorded.evidence.padding is not None

    def told(**of: Any) -> tuple[float | None, str]:
        seen = replace(recorded.evidence, padding=replace(recorded.evidence.padding, **of))
        request = Request(recorded.recording.run, Path("/nowhere"), trials=False)
        first = first_verdict(request, recorded.recording, seen)
        (bound,) = [one.bound for one in first.findings if one.id == name]
        return bound, first.verdict.text

    (whole, text), (half, _) = told(follows=1.0), told(follows=0.5)
    assert "could run up to" in text
    assert whole is not None
    assert half is not None
    assert 1 < half < whole
    untimed, text = told(masked=None)
    assert untimed is None
    assert "could run up to" not in text

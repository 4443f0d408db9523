"""Which GPUs the training uses of those it sees, and which of NVML's they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fixes.boxes import GIB, box
from recordings import FIT, observed
from trainperf.errors import NotMeasured
from trainperf.evidence.facts import device, of_others
from trainperf.model import Device, Gpu

T4, A10G = "Tesla T4", "NVIDIA A10G"
LOOP = {**FIT, "kind": "iterator", "framework": "torch"}


def card(index: int, number: int | None = None, name: str = A10G, **fields: Any) -> Gpu:
    """The GPU of NVML's `index`; `number` is on its label."""
    uuid = f"GPU-0000000{index if number is None else number}-aaaa"
    fields.setdefault("memory_total", 24 * GIB)
    return Gpu(index, name, uuid=uuid, compute_capability="8.6", **fields)


def told(number: int, uuid: str | None = None, used: bool = True, **fields: Any) -> dict[str, Any]:
    """The words of the script's process on a device."""
    known = {"name": A10G, "memory": None, "capability": None}
    return {"number": number, "uuid": uuid, "used": used, **known, **fields}


def on(
    *gpus: dict[str, Any], cards: tuple[Gpu, ...] = (), shown: str | None = None, order: Any = None
) -> Device:
    framework = {
        "e": "framework",
        "name": "torch",
        "version": "2.13.0",
        "keras": None,
        "cuda": True,
        "gpus": list(gpus),
        "logical": 1,
    }
    facts = [
        {"e": "fact", "k": "cuda_visible_devices", "v": shown},
        {"e": "fact", "k": "cuda_device_order", "v": order},
    ]
    return device(observed(*facts, LOOP, framework), box(gpus=cards))


# ---------------------------------------------------------------- what is not known


TWO = (card(0), card(1))
MIXED = (card(0), card(1, name=T4))


@pytest.mark.parametrize(
    ("seen", "cards", "shown"),
    [
        ([told(0, "0000000f-aaaa")], TWO, None),  # no such GPU here
        ([told(0, "0000000")], TWO, None),  # the beginning of two
        ([told(0), told(1)], MIXED, None),  # CUDA may count the faster one first
        ([told(0)], MIXED, "1"),
        ([told(0)], (card(0, name=T4),), None),  # the only one, and another
        ([told(0)], (), None),  # NVML does not answer
        ([told(0), told(1)], TWO, "0"),  # the variable was set when CUDA had begun
        ([told(0)], TWO, "5"),
        ([told(0)], (replace(TWO[0], uuid=None), replace(TWO[1], uuid=None)), "GPU-0"),
    ],
)
def test_which_gpu_it_is_may_not_be_known(
    seen: list[dict[str, Any]], cards: tuple[Gpu, ...], shown: str | None
) -> None:
    assert {gpu.index for gpu in on(*seen, cards=cards, shown=shown).gpus} == {None}


def test_a_process_that_sees_gpus_and_uses_none_computes_on_the_cpu() -> None:
    found = on(told(0, used=False), told(1, used=False), cards=TWO)
    assert (found.kind, found.name, len(found.gpus), found.used) == ("CPU", "AMD EPYC", 2, ())
    with pytest.raises(NotMeasured):
        _ = found.first


# --------------------------------------------------------------------- what is known


def test_one_gpu_of_eight_is_used_and_it_is_the_one_with_its_uuid() -> None:
    cards = tuple(card(index, 7 - index) for index in range(8))
    seen = [told(number, f"0000000{number}-aaaa", used=number == 2) for number in range(8)]
    found = on(*seen, cards=cards)
    assert (found.kind, found.count, len(found.gpus)) == ("GPU", 1, 8)
    assert (found.first.number, found.first.index) == (2, 5)


@pytest.mark.parametrize(
    ("seen", "cards", "shown", "order", "index"),
    [
        ([told(0)], TWO, "1", None, 1),  # alike, so counted alike
        ([told(0)], TWO, "GPU-00000001", None, 1),
        ([told(0, name=T4)], MIXED, "1", "PCI_BUS_ID", 1),
        ([told(0, name=T4), told(1)], tuple(reversed(MIXED)), " 1 , 0", "PCI_BUS_ID", 1),
        ([told(0, "00000001-AAAA")], TWO, "0", None, 1),  # the UUID goes before the variable
        ([told(0)], (card(3),), "3", None, 3),  # NVML in a container
        ([told(0, name="")], (card(0),), None, None, 0),
    ],
)
def test_without_a_uuid_the_variables_tell(
    seen: list[dict[str, Any]], cards: tuple[Gpu, ...], shown: Any, order: Any, index: int
) -> None:
    found = on(*seen, cards=cards, shown=shown, order=order)
    assert found.gpus[0].index == index


# ----------------------------------------------------------------------------- slices


DIVIDED = card(0, mig=True, memory_total=80 * GIB)
PART = {"name": f"{A10G} MIG 1g.10gb"}


def test_the_memory_of_an_unknown_slice_is_not_that_of_the_card() -> None:
    (gpu,) = on(told(0, "00000000-aaaa", **PART), cards=(DIVIDED,)).gpus
    assert gpu.memory_total is None


def test_the_gpus_of_the_other_ranks_are_told_apart_by_their_uuids() -> None:
    cards = tuple(card(index, 7 - index) for index in range(8))
    processes = []
    for rank in range(3):
        seen = [told(n, f"0000000{n}-aaaa", used=n == rank) for n in range(8)]
        framework = {"e": "framework", "name": "torch", "gpus": seen, "logical": 1}
        made = observed({"e": "rank", "rank": rank}, LOOP, framework)
        processes.append(made)
    machine = box(gpus=cards)
    records = [one.process for one in processes]
    assert device(processes[0], machine).first.index == 7
    assert of_others(processes[0], records, machine) == (5, 6)

"""The connections of this machine's GPUs: NVLink, or else PCIe, as NVML describes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainperf.recording.run import Link
from trainperf.samplers.nvml_device import as_text

# Return codes of nvml.h. Compared as numbers: bindings differ in the classes they have.
_NO_SUCH_LINK = {2, 3}  # invalid argument: no link of this number; not supported: no NVLink
_NO_FUNCTION = 13

_GPU, _NPU, _SWITCH = 0, 1, 2  # nvmlIntNvLinkDeviceType_t
_FABRIC = -1
"""Stands for all NVSwitches, beside the places of the GPUs: they are one network."""

NVLINK = {
    1: ("1", 20e9),
    2: ("2", 25e9),
    3: ("2.2", 25e9),
    4: ("3", 25e9),
    5: ("3.1", 25e9),
    6: ("4", 25e9),
    7: ("5", 50e9),
}
"""NVML's values for a version (NVML_NVLINK_VERSION_* of nvml.h, which are no version
numbers): the version in words, and bytes per second of one link, one way.

As NVIDIA states them for its GPUs: P100 4 x 20 GB/s, V100 6 x 25, A100 12 x 25,
H100 18 x 25, B200 18 x 50.
"""
_HOPPER = 9
_HOPPER_SAYS = {7: 6}  # some drivers call the links of Hopper NVLink 5

PCIE = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9}
"""Bytes per second of one PCIe lane, one way, by generation.

2.5 and 5 GT/s at 8 of 10 bits; 8, 16 and 32 GT/s at 128 of 130 bits (PCI Express Base
Specification). What packets carry beside the data is not taken off.
"""


@dataclass(frozen=True)
class _NvLinks:
    """The active links of one GPU that lead to another of `between`, or to a switch."""

    peers: frozenset[int]
    versions: tuple[str, ...]  # one for each link, "" where it is not known
    bytes_s: float | None  # of all together, one way; None where a version is not known


def between(indices: Sequence[int]) -> Link | None:
    """Return what connects the GPUs of these NVML indices; NVML must be started.

    NVLink, if one can get from every GPU to every other over NVLinks, through others
    where need be, as NCCL's rings do; `bytes_s` is then of all NVLinks of the GPU that
    has least. PCIe otherwise: the slowest GPU's, at the highest generation of its link
    (an idle GPU lowers it) and the width that was negotiated. Upper bounds, both.

    None for fewer than two GPUs, and where the driver or its binding is too old to say,
    refuses, or a GPU is lost. Never raises.
    """
    if len(indices) < 2:
        return None
    try:
        import pynvml

        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in indices]
        return _slowest(pynvml, handles)
    except Exception:  # what is not known is not told; NVLink not answering is not PCIe
        return None


def _slowest(nvml: Any, handles: Sequence[Any]) -> Link | None:
    places = {
        _address(nvml.nvmlDeviceGetPciInfo(handle)): place for place, handle in enumerate(handles)
    }
    found = [_nvlinks(nvml, handle, places) for handle in handles]
    if _connected([one.peers for one in found]):
        known = [one.bytes_s for one in found if one.bytes_s is not None]
        least = min(found, key=lambda one: (one.bytes_s or 0.0, len(one.versions)))
        count, versions = len(least.versions), {*least.versions}
        name = f"NVLink {versions.pop()}".strip() if len(versions) == 1 else "NVLink"
        speed = min(known) if len(known) == len(found) else None
        return Link("NVLink", speed, f"NVML: {count} {name} link{'' if count == 1 else 's'}")
    pcie = _pcie(nvml, handles)
    if any(one.peers for one in found):
        source = f"{pcie.source}; NVLink joins only some of the {len(handles)} GPUs"
        return replace(pcie, source=source)
    return pcie


def _pcie(nvml: Any, handles: Sequence[Any]) -> Link:
    speeds = []
    for handle in handles:
        generation = int(nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle))
        width = int(nvml.nvmlDeviceGetCurrPcieLinkWidth(handle))
        lane = PCIE.get(generation)
        speeds.append((None if lane is None else lane * width, generation, width))
    if any(speed is None for speed, _, _ in speeds):
        return Link("PCIe", None, "NVML: a generation of PCIe that trainperf does not know")
    speed, generation, width = min(speeds, key=lambda one: one[0] or 0.0)
    return Link("PCIe", speed, f"NVML: PCIe {generation} x{width}")


def _nvlinks(nvml: Any, handle: Any, places: dict[tuple[int, int, int], int]) -> _NvLinks:
    """The NVLinks of one GPU; raises if it does not say."""
    peers, versions, speeds = set(), [], []
    for number in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            active = nvml.nvmlDeviceGetNvLinkState(handle, number)
        except nvml.NVMLError as error:
            if getattr(error, "value", None) not in _NO_SUCH_LINK:
                raise
            continue
        peer = _peer(nvml, handle, number, places) if active else None
        if peer is None:
            continue
        version, speed = _version(nvml, handle, number)
        peers.add(peer)
        versions.append(version)
        speeds.append(speed)
    known = [speed for speed in speeds if speed is not None]
    total = sum(known) if len(known) == len(speeds) else None
    return _NvLinks(frozenset(peers), tuple(versions), total)


def _peer(
    nvml: Any, handle: Any, number: int, places: dict[tuple[int, int, int], int]
) -> int | None:
    """The place of the GPU at the other end, or `_FABRIC`; None for what is neither.

    Raises where that is not known: an old driver does not tell a switch from a GPU.
    """
    try:
        kind = nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, number)
    except nvml.NVMLError as error:
        if getattr(error, "value", None) != _NO_FUNCTION:
            raise
        kind = None
    if kind == _SWITCH:
        return _FABRIC
    if kind == _NPU:
        return None
    remote = nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, number)
    if _hidden(remote):
        return _FABRIC
    place = places.get(_address(remote))
    if place is None and kind != _GPU:
        raise ValueError(f"what is at the other end of NVLink {number} is not known")
    return place


def _hidden(remote: Any) -> bool:
    """Whether a virtual machine does not show the other end: a switch, as NCCL takes it."""
    address = (as_text(remote.busId) or "").rpartition(".")[0].replace(":", "")
    return bool(address) and not address.lower().strip("f")


def _address(pci: Any) -> tuple[int, int, int]:
    return int(pci.domain), int(pci.bus), int(pci.device)


def _version(nvml: Any, handle: Any, number: int) -> tuple[str, float | None]:
    try:
        said = nvml.nvmlDeviceGetNvLinkVersion(handle, number)
        if said in _HOPPER_SAYS:
            major, _ = nvml.nvmlDeviceGetCudaComputeCapability(handle)
            said = _HOPPER_SAYS[said] if major == _HOPPER else said
    except nvml.NVMLError:
        return "", None
    return NVLINK.get(said, ("", None))


def _connected(peers: Sequence[frozenset[int]]) -> bool:
    """Whether one gets from every GPU to every other, over others where need be."""
    reached: set[int] = set()
    todo = [0]
    while todo:
        place = todo.pop()
        if place in reached:
            continue
        reached.add(place)
        if place == _FABRIC:
            todo += [other for other, ends in enumerate(peers) if _FABRIC in ends]
        else:
            todo += peers[place]
    return reached >= set(range(len(peers)))

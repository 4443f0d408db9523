"""A volume that gives less than the step would read."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.words import MIB, worth
from trainperf.fixes.storage._storage import (
    at_most,
    by_file,
    epoch_bytes,
    folder,
    from_storage,
    place,
    rate,
    readers,
    slower_said,
    waits,
)
from trainperf.model import Equivalence, Evidence, Finding, Reads, Volume
from trainperf.model.words import size

GP3 = 125 * MIB
"""Bytes per second of a gp3 volume, unless more was asked for (AWS: 125 MiB/s, 3,000 IOPS)."""

LIKE_GP3 = (0.80, 1.15)
"""A measured rate within these shares of `GP3` looks like that limit."""

CLEARLY = 0.8
"""The step must need this much more than the volume gives: rates of cold reads vary."""

ROOM = 0.8
"""Share of the available memory that the kernel may well fill with files."""

RAISE = """\
# which volume is it, and what was it given?
aws ec2 describe-volumes --filters Name=attachment.instance-id,Values=INSTANCE_ID
aws ec2 modify-volume --volume-id VOLUME_ID --throughput {throughput}"""

COPY = """\
# once, before training: a local disk is empty after each stop of the instance
import shutil

shutil.copytree("{folder}", "{local}/data", dirs_exist_ok=True)"""


class FasterStorage(Fix):
    """Give the data a volume that is as fast as the step reads.

    ## Why it is slow
    The step would read more in a second than the volume gives when the data is not in
    memory. A gp3 volume has 125 MiB/s and 3,000 requests a second unless more was asked
    for; an instance has a limit of its own for all its EBS volumes together.

    ## What changes
    The volume is given more throughput, or the data is copied to a local NVMe disk before
    training. The script stays as it is, but for a path.

    ## When not to
    - When all data fits into memory and is read for many epochs: only the first is slow.
    - When smaller data will do: compressed records need less of the volume.
    """

    category = "storage"
    equivalence = Equivalence.ENVIRONMENT
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find the volume whose cold rate is furthest below what the step needs."""
        short = [one for one in evidence.reads if _is_short(one)]
        if not short or not evidence.input_bound:
            return None
        one = min(short, key=lambda one: _cold(one) / (one.needed_bytes_s or 1.0))
        cold, needed = _cold(one), one.needed_bytes_s or 0.0
        bound, data, slower = None, {}, ""
        basis = "none: while it was timed, the files were read from memory"
        if from_storage(one):
            alone = (one.cold_bytes_s or cold) if readers(evidence) == 1 else cold
            saved = (one.stored_per_step or 0.0) / alone
            most = at_most(one, saved, evidence)
            slower = slower_said(most, saved)
            bound = evidence.bound_if_input_saves(most)
            basis = "what a step reads from storage, at the cold rate, takes no time"
            data = waits(
                saved,
                most,
                f"{size(one.stored_per_step or 0.0)} to be read from {place(one.volume)}",
            )
            if not worth(evidence, bound):
                return None
        elif epoch_bytes(one, evidence) <= evidence.machine.memory_limit:
            return None
        return self.finding(
            title=f"The volume at {place(one.volume)} is slower than the step reads",
            text=f"With an input that never waits, the step would read {rate(needed)}. "
            f"{place(one.volume)} gave {rate(cold)} for {size(one.probed_bytes)} of these files "
            f"that were not in memory.{_limits(one, cold)}{slower}{_in_all(one, evidence)}",
            bound=bound,
            bound_basis=basis,
            advice=_advice(one.volume, evidence),
            snippet=_snippet(one, needed, evidence),
            data=data,
        )


def _cold(one: Reads) -> float:
    return one.best_cold_bytes_s or 0.0


def _is_short(one: Reads) -> bool:
    if one.best_cold_bytes_s is None or one.needed_bytes_s is None or by_file(one):
        return False
    return one.best_cold_bytes_s < CLEARLY * one.needed_bytes_s


def _limits(one: Reads, cold: float) -> str:
    volume = one.volume
    said = ""
    if volume.kind == "ebs" and LIKE_GP3[0] * GP3 <= cold <= LIKE_GP3[1] * GP3:
        said = f" That is about the {rate(GP3)} of a gp3 volume that was given no more."
    if volume.limit_bytes_s is not None:
        said += f" At most {rate(volume.limit_bytes_s)} ({volume.limit_basis})."
    return said


def _in_all(one: Reads, evidence: Evidence) -> str:
    try:
        total = epoch_bytes(one, evidence)
    except NotMeasured:
        return ""
    if total <= evidence.machine.memory_limit:
        fits = total <= ROOM * evidence.machine.memory_available
        many = evidence.loop.epochs is None or evidence.loop.epochs > 1
        if not fits or not many:
            return ""
        return (
            f" The {size(total)} of an epoch fit into memory: epochs after the first may wait less."
        )
    return (
        f" An epoch reads {size(total)}, more than the "
        f"{size(evidence.machine.memory_limit)} of memory: they are read anew in each epoch."
    )


def _local_disk(volume: Volume, evidence: Evidence) -> str:
    """The name of the type, if the instance has a local disk that the data is not on."""
    instance = evidence.machine.instance
    kind = instance.type if instance is not None else None
    return kind.name if kind is not None and kind.nvme_bytes and volume.kind != "nvme" else ""


def _advice(volume: Volume, evidence: Evidence) -> str:
    told = []
    if name := _local_disk(volume, evidence):
        told.append(f"Copy the data to the local NVMe disk that {name} has.")
    if volume.kind == "ebs":
        told.append(
            "Give the gp3 volume more throughput (125 to 1,000 MiB/s) and, for small reads, more "
            "IOPS (3,000 to 16,000); the instance's own EBS limit still holds."
        )
    if not told:
        told.append("Move the data to a faster disk, or to one in the machine itself.")
    return " ".join(told)


def _snippet(one: Reads, needed: float, evidence: Evidence) -> str:
    volume = one.volume
    if _local_disk(volume, evidence) or volume.kind != "ebs":
        # where Deep Learning AMIs mount the instance store
        local = "/opt/dlami/nvme" if _local_disk(volume, evidence) else "/local/disk"
        return COPY.format(folder=folder(one), local=local)
    most = min(1000, max(250, round(needed / MIB / 50 + 0.5) * 50))
    return RAISE.format(throughput=most)

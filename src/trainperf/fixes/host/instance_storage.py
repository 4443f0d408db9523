"""An AWS instance whose EBS bandwidth the data does not fit through."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import GB
from trainperf.fixes.host._instance_types import (
    change_said,
    files_on,
    price_said,
    rate_said,
    shortage,
)
from trainperf.model import Equivalence, Evidence, Finding, InstanceType


def _limit(kind: InstanceType) -> tuple[float | None, float | None]:
    return kind.ebs_bytes_s, kind.ebs_burst_bytes_s


class InstanceWithMoreEbs(Fix):
    """Take an instance with more EBS bandwidth for the same GPU.

    ## Why it is slow
    Besides the limit of each EBS volume, an instance has one for all of them together.
    Small GPU instances have about 100 MB/s that last; what they reach beyond that is a
    burst of half an hour a day. A faster volume does not help there.

    ## What changes
    The same script runs on a larger instance with the same GPU. What the step needs is
    measured: the bytes it reads over the time it takes when its batch is there. That the
    volume can give as much is assumed.

    ## When not to
    - When the data fits on the instance's own NVMe disk: copy it there first.
    - When it fits into memory: then only the first epoch reads it.
    - When smaller files would do: compressed records, smaller images.
    """

    category = "storage"
    equivalence = Equivalence.ENVIRONMENT
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find files on EBS that are read at the limit of the instance, and needed faster."""
        found = shortage(evidence, files_on(evidence, ("ebs",)), _limit)
        if found is None:
            return None
        name, own = found.better.name, found.own
        disk = f"{own.nvme_bytes / GB:,.0f} GB" if own.nvme_bytes else ""
        first = (
            f"Copy the data to the local NVMe ({disk}) if it fits. Else take" if disk else "Take"
        )
        burst = ", in a burst that ends" if found.reached > 1.15 * found.lasts else ""
        return self.finding(
            title=f"EBS bandwidth of {found.instance.name} is less than the training reads",
            text=f"{found.what} were read at {rate_said(found.reached)}"
            f"{burst}; {found.instance.name} has {rate_said(found.lasts)} that last, for all EBS "
            f"volumes together. To keep the {own.gpu} busy the step needs "
            f"{rate_said(found.needed)}; {name} has {rate_said(found.better_lasts)}.",
            bound=found.bound,
            bound_basis=f"at most: the files read at the EBS bandwidth of {name}, and the volume "
            "as fast",
            advice=f"{first} {name}, {price_said(evidence, name)}.",
            snippet=change_said(found.instance, name),
        )

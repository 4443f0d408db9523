"""An AWS instance whose network the data does not fit through."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.host._instance_types import (
    Flow,
    change_said,
    files_on,
    objects,
    price_said,
    rate_said,
    shortage,
)
from trainperf.model import Equivalence, Evidence, Finding, InstanceType
from trainperf.recording.machine.storage import VolumeKind

OVER_THE_NETWORK: tuple[VolumeKind, ...] = ("efs", "nfs", "lustre", "s3 mount", "network")


def _limit(kind: InstanceType) -> tuple[float | None, float | None]:
    return kind.network_bytes_s, kind.network_burst_bytes_s


class InstanceWithMoreNetwork(Fix):
    """Take an instance with more network bandwidth for the same GPU.

    ## Why it is slow
    S3, EFS and FSx are reached over the network of the instance. Small GPU instances have
    2.5 to 5 Gbit/s that last, whatever "up to 10" or "up to 25" they are sold with: the
    rest is a burst that ends, typically after 5 to 60 minutes.

    ## What changes
    The same script runs on a larger instance with the same GPU. What the step needs is
    measured: the bytes it reads over the time it takes when its batch is there.

    ## When not to
    - When the data fits on the instance's own disk: copy it there once, then read it there.
    - When it fits into memory: then only the first epoch reads it.
    - When smaller files would do: compressed records, smaller images.
    """

    category = "storage"
    equivalence = Equivalence.ENVIRONMENT
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find data that comes over the network at the limit of the instance."""
        found = shortage(evidence, _flow(evidence), _limit)
        if found is None:
            return None
        name = found.better.name
        burst = ", in a burst that ends" if found.reached > 1.15 * found.lasts else ""
        return self.finding(
            title=f"Network of {found.instance.name} gives less than the training reads",
            text=f"{found.what} were read at {rate_said(found.reached)}"
            f"{burst}; the network of {found.instance.name} has {rate_said(found.lasts)} that "
            f"last. To keep the {found.own.gpu} busy the step needs {rate_said(found.needed)}; "
            f"{name} has {rate_said(found.better_lasts)}.",
            bound=found.bound,
            bound_basis=f"at most: the data read as fast as the network of {name} lasts, and "
            "where it comes from as fast",
            advice=f"Copy the data to a local disk if it fits. Else take {name}, "
            f"{price_said(evidence, name)}.",
            snippet=change_said(found.instance, name),
        )


def _flow(evidence: Evidence) -> Flow | None:
    """The larger of what comes from file systems and from S3."""
    flows = [files_on(evidence, OVER_THE_NETWORK), objects(evidence)]
    return max((one for one in flows if one), key=lambda one: one.needed, default=None)

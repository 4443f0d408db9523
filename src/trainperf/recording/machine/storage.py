"""Where the data of a script lies, and how fast it can be read there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VolumeKind = Literal[
    "ebs", "nvme", "disk", "tmpfs", "overlay", "nfs", "efs", "lustre", "s3 mount", "network", ""
]
"""`nvme` is an instance store or another local NVMe disk, "" not known."""


@dataclass(frozen=True)
class Volume:
    """A file system, and the device beneath it; empty and None where not known.

    `model` is what the device calls itself ("Amazon Elastic Block Store"). `limit_bytes_s`
    is the most it can give, with `limit_basis` saying whence that is known.
    """

    mount: str
    kind: VolumeKind
    filesystem: str
    device: str = ""
    model: str = ""
    limit_bytes_s: float | None = None
    limit_basis: str = ""


@dataclass(frozen=True)
class Reads:
    """The files a script read from one volume while it was observed, and a probe of them.

    `files` counts the different files seen, `opens` how often they were opened in
    `seconds`; `sizes` are the 10th, 50th and 90th percentile of their bytes, `total_bytes`
    their sum. `examples` are a few paths.

    `cold_bytes_s` is the rate at which a sample of these very files was read after the
    kernel had dropped them from its cache. `probed_bytes` is the size of the sample; `reason` says
    why there was no probe. `needed_bytes_s`
    is what the step would read if the input never made it wait: the bytes of one step
    over the resident time.

    `at_least` says that there are more files than `files`. `opens_per_step` and
    `bytes_per_step` are for one batch of a process,
    `stored_per_step` are those of them that came from storage, not from the
    kernel's cache. `cold_file_s` and `warm_file_s` are the mean time to open, read and
    close one piece of the sample, a whole file or 4 MiB of a larger one, from storage and from the
    cache; `cold_parallel_bytes_s` is the cold rate with four readers at once.
    """

    volume: Volume
    files: int
    opens: int
    seconds: float
    sizes: tuple[int, int, int]
    total_bytes: int
    examples: tuple[str, ...] = ()
    cold_bytes_s: float | None = None
    probed_bytes: int = 0
    needed_bytes_s: float | None = None
    reason: str = ""
    at_least: bool = False
    opens_per_step: float | None = None
    bytes_per_step: float | None = None
    stored_per_step: float | None = None
    cold_file_s: float | None = None
    warm_file_s: float | None = None
    cold_parallel_bytes_s: float | None = None

    @property
    def mean_bytes(self) -> float | None:
        """Mean size of a file, None without files."""
        return self.total_bytes / self.files if self.files else None

    @property
    def best_cold_bytes_s(self) -> float | None:
        """The cold rate with one reader or with four, whichever is higher; None if neither."""
        known = (self.cold_bytes_s, self.cold_parallel_bytes_s)
        return max((one for one in known if one is not None), default=None)


@dataclass(frozen=True)
class Objects:
    """The S3 objects of one bucket that a script read.

    `requests` counts those seen while it was observed, `request_s` their mean time, which ends with
    the response, `body_s` the mean time of reading what came behind it, `bytes` what they returned.
    `errors` counts what went wrong by name ("SlowDown", "AccessDenied"). `seconds` is the time in
    which `requests` were counted, `concurrency` how many were under way at once while any was,
    `requests_per_step` those for one batch of a rank. `endpoint` is where the script's client sent
    them, "" for AWS itself. `region` is the bucket's, asked on an instance of AWS only.
    """

    bucket: str
    region: str | None = None
    prefix: str = ""
    requests: int = 0
    request_s: float | None = None
    bytes: int = 0
    mean_object_bytes: float | None = None
    errors: tuple[tuple[str, int], ...] = ()
    body_s: float | None = None
    seconds: float | None = None
    concurrency: float | None = None
    requests_per_step: float | None = None
    endpoint: str = ""

"""`s3://` paths given to a TensorFlow that cannot read them."""

from __future__ import annotations

import re

from trainperf.fixes import Fix
from trainperf.model import Equivalence, Evidence, Finding

SNIPPET = """\
# mounted: nothing is copied, large files are read ahead
sudo mount-s3 {bucket} /mnt/s3 --read-only --allow-other
# the script then reads below /mnt/s3/{path}

# or copied once to a local disk, best an NVMe one
aws s3 sync s3://{folder} /local/{name}

# or on SageMaker: an input channel, whose folder is in SM_CHANNEL_TRAIN
# trainperf sagemaker submit train.py --input train=s3://{folder} --input-mode FastFile"""


class StageFromS3(Fix):
    """Read `s3://` data through a local path.

    ## Why it is slow
    TensorFlow no longer has a file system for `s3://`, and tensorflow-io, which had
    one, does not load into current versions. Where such paths are read by other means,
    each object is a request of its own with tens of milliseconds of latency.

    ## What changes
    The data is mounted or copied, and the script reads ordinary paths: SageMaker's
    FastFile or File mode, mountpoint-s3, or a copy on a local NVMe disk.

    ## When not to
    - Data far larger than the disk that is read once: mount it, or use FastFile mode.
    - A loop that takes bytes, not paths: boto3 or s3fs in a generator works too, one
      request for each object; then have many under way at once.
    - Many small objects: pack them into shards of about 150 MB first, whatever the way.
    """

    category = "storage"
    concerns = "access"
    equivalence = Equivalence.ENVIRONMENT
    without_edit = "where the data would lie locally, and who copies them, is not known"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find s3:// paths that went to TensorFlow."""
        paths = [str(path) for path in evidence.fact("s3_paths")]
        if not paths:
            return None
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        return self.finding(
            title=f"TensorFlow {evidence.framework.version} cannot read s3:// paths",
            text=f"The script gives TensorFlow {paths[0]}{more}. It has no file system for s3://, "
            "and tensorflow-io does not load into it.",
            bound=None,
            bound_basis="not measured: the paths cannot be read",
            advice="On SageMaker, use an input channel in FastFile or File mode. Elsewhere, mount "
            "the bucket with mountpoint-s3, or copy the data to a local disk first. The script "
            "then reads local paths.",
            snippet=SNIPPET.format(**_parts(paths[0])),
        )


def _parts(path: str) -> dict[str, str]:
    """The bucket and the folder of an `s3://` path, without what a pattern leaves open."""
    bucket, _, key = path.removeprefix("s3://").partition("/")
    folder = re.split(r"[*?\[{]", key)[0].rpartition("/")[0]
    return {
        "bucket": bucket or "BUCKET",
        "folder": f"{bucket or 'BUCKET'}/{folder}" if folder else bucket or "BUCKET",
        "path": f"{folder}/" if folder else "",
        "name": folder.rpartition("/")[2] or bucket or "data",
    }

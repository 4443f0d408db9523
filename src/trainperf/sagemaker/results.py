"""What comes back from the job: the archive of its output, unpacked with care."""

from __future__ import annotations

import re
import tarfile
from dataclasses import dataclass
from pathlib import Path

from trainperf.errors import TrainperfError

EXPECTED = re.compile(
    r"(?:[\w.-]+/)?trainperf/"
    r"(diagnosis\.json|fixes\.patch|exit-[\w-]+\.json|job/rank-\d+/(?:rank|recording)\.json)"
)
"""The only members that are unpacked; of several hosts each may have a folder of its own."""

LARGEST = 2 * 1024**3


@dataclass(frozen=True)
class Results:
    """What was unpacked: a diagnosis, or the folder of the ranks' records."""

    folder: Path
    diagnosis: Path | None = None
    ranks: Path | None = None


def unpack(archive: Path, folder: Path) -> Results:
    """Unpack the expected members of `archive` into `folder`; everything else stays in it.

    No path of the archive is used: names are matched whole, links and devices refused.
    Raises `TrainperfError` where it is no archive or holds no report.
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                match = EXPECTED.fullmatch(member.name.removeprefix("./"))
                if match is None or not member.isfile() or member.size > LARGEST:
                    continue
                data = tar.extractfile(member)
                if data is not None:
                    target = folder / match[1]
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with data, target.open("wb") as file:
                        while piece := data.read(1024**2):
                            file.write(piece)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise TrainperfError(
            f"the output of the job cannot be unpacked: {error}", f"look into {archive}"
        ) from error
    diagnosis, ranks = folder / "diagnosis.json", folder / "job"
    if diagnosis.is_file():
        return Results(folder, diagnosis=diagnosis)
    if ranks.is_dir():
        return Results(folder, ranks=ranks)
    raise TrainperfError(
        "the output of the job holds no report", "its log says why: see CloudWatch"
    )

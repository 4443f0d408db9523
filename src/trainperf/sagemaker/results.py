"""The job's output: its archive, unpacked with care."""

from __future__ import annotations

import re
import tarfile
import zlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from trainperf.errors import TrainperfError

EXPECTED = re.compile(
    r"(?:[\w.-]+/)?trainperf/"
    r"(diagnosis\.json|fixes\.patch|exit-[\w-]+\.json|job/rank-\d+/(?:rank|recording)\.json)"
)
"""The only members that are unpacked; of several hosts each may have a folder of its own."""

LARGEST = 2 * 1024**3
"""Bytes that are unpacked in all; the records of a rank have some ten million."""

MOST_MEMBERS = 100_000
"""Members that are looked at: what lies behind them is not worth hours of unpacking."""


@dataclass(frozen=True)
class Results:
    """The unpacked results: a diagnosis, or the folder of the ranks' records."""

    folder: Path
    diagnosis: Path | None = None
    ranks: Path | None = None


def unpack(archive: Path, folder: Path, origin: str = "") -> Results:
    """Unpack the expected members of `archive` into `folder`; everything else stays in it.

    No path of the archive is used: names are matched whole, links and devices refused.
    `origin` is where it came from and stays, for the reader of an error.
    Raises `TrainperfError` where it is no archive, holds no report, or more than `LARGEST`.
    """
    left, where = LARGEST, origin or str(archive)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in islice(tar, MOST_MEMBERS):
                match = EXPECTED.fullmatch(member.name.removeprefix("./"))
                if match is None or not member.isfile():
                    continue
                left -= max(0, member.size)
                if left < 0:
                    raise TrainperfError(
                        f"the output holds records of more than {LARGEST / 1024**3:g} GiB",
                        f"look into {where}",
                    )
                _extract(tar, member, folder / match[1])
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise TrainperfError(
            f"the output of the job cannot be unpacked: {error}", f"look into {where}"
        ) from error
    diagnosis, ranks = folder / "diagnosis.json", folder / "job"
    if diagnosis.is_file():
        return Results(folder, diagnosis=diagnosis)
    if ranks.is_dir():
        return Results(folder, ranks=ranks)
    raise TrainperfError(
        "the output of the job holds no report", "its log says why: see CloudWatch"
    )


def has_report(archive: Path) -> bool:
    """Whether an archive holds what `unpack` looks for; also where the job failed."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            names = (one.name for one in islice(tar, MOST_MEMBERS) if one.isfile())
            found = (EXPECTED.fullmatch(name.removeprefix("./")) for name in names)
            return any(one and one[1].startswith(("diagnosis", "job/")) for one in found)
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError):
        return False


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    data = tar.extractfile(member)
    if data is None:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with data, target.open("wb") as file:
        while piece := data.read(1024**2):
            file.write(piece)

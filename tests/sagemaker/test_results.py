"""Archives that come back: only what is expected leaves them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from trainperf.errors import TrainperfError
from trainperf.sagemaker.submitting import unpack


def archive(folder: Path, *members: tuple[str, bytes] | tarfile.TarInfo) -> Path:
    path = folder / "output.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            tar.addfile(info, io.BytesIO(member[1]))
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_hostile_members_stay_where_they_are(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    made = archive(
        tmp_path,
        ("../evil", b"x"),
        ("/tmp/evil", b"x"),
        ("trainperf/../../evil", b"x"),
        ("trainperf/job/rank-0/../../../../evil", b"x"),
        ("trainperf/other.txt", b"x"),
        link("trainperf/fixes.patch", "/etc/passwd"),
        link("trainperf/exit-algo-1.json", "/etc/passwd", tarfile.LNKTYPE),
        ("trainperf/diagnosis.json", b"{}"),
    )
    found = unpack(made, out)
    assert [path.name for path in out.rglob("*")] == ["diagnosis.json"]
    assert found == out / "diagnosis.json"
    assert not (tmp_path / "evil").exists()


def test_records_of_several_hosts_come_into_one_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    made = archive(
        tmp_path,
        ("./algo-1/trainperf/job/rank-00000/rank.json", b"0"),
        ("./algo-2/trainperf/job/rank-00001/rank.json", b"1"),
        ("./algo-2/trainperf/job/rank-00001/recording.json", b"1"),
    )
    found = unpack(made, out)
    assert found == out / "job"
    assert sorted(path.name for path in (out / "job").iterdir()) == ["rank-00000", "rank-00001"]


def test_what_holds_no_report_or_is_no_archive_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TrainperfError, match="no report"):
        unpack(archive(tmp_path, ("model.bin", b"x")), tmp_path)
    broken = tmp_path / "broken.tar.gz"
    broken.write_bytes(b"no archive")
    with pytest.raises(TrainperfError, match="cannot be unpacked"):
        unpack(broken, tmp_path)
    whole = archive(tmp_path, ("trainperf/diagnosis.json", bytes(200_000)))
    broken.write_bytes(whole.read_bytes()[:150])
    with pytest.raises(TrainperfError, match="cannot be unpacked"):
        unpack(broken, tmp_path)

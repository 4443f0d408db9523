"""One rank of a job: where it leaves its record, and whose folder it refuses."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from kit.processes import script
from trainperf import store
from trainperf.commands import observe_rank, session
from trainperf.errors import TrainperfError
from trainperf.model import Ending
from trainperf.ranks import Place, records
from trainperf.settings import Settings

PLACE = Place(1, 2, "torchrun", "mine", 0)
FIRST = replace(PLACE, rank=0)


@pytest.fixture
def rank(tmp_path, monkeypatch, nothing_left):
    """Observe a script as one rank; what it left, and what it said."""
    folder = tmp_path / "records"

    def run(place=PLACE, source="print('hello')\n", **settings):
        script(tmp_path, source, "train.py")
        target = session.target(None, ("train.py",), tmp_path)
        console = Console(record=True, width=400, file=open(os.devnull, "w"))  # noqa: SIM115
        chosen = Settings(**{"run_dir": folder, **settings})
        status = observe_rank.run(target, chosen, place, console)
        return status, records.folder_of(folder, place.rank), console.export_text()

    return run


def test_a_rank_leaves_a_record_and_one_line(rank, tmp_path):
    status, folder, said = rank()
    record = records.load(folder)
    assert status == 0
    assert (record.place, record.ending) == (PLACE, Ending.FINISHED)
    assert record.script_sha256 == records.digest(tmp_path / "train.py")
    recording = store.load_recording(folder / store.RECORDING_FILE)
    assert recording.run.board == str(tmp_path / "records" / records.BOARD)
    assert recording.run.guarded == ()
    assert not list(folder.glob("events-*"))
    (line,) = said.strip().splitlines()
    assert line.startswith("trainperf: rank 1 of 2: ended by itself")


def test_rank_0_says_where_the_records_are_and_how_to_join_them(rank, tmp_path):
    lines = rank(FIRST)[2].strip().splitlines()
    assert str(tmp_path / "records") in lines[0]
    assert "not guarded" in lines[1]
    assert lines[2].endswith(f"trainperf merge {tmp_path / 'records'}")


def test_a_rank_that_fails_is_recorded_and_its_output_named(rank):
    status, folder, said = rank(source="import sys; print('no data'); sys.exit(7)\n")
    assert status == 3
    assert records.load(folder).ending is Ending.FAILED
    assert "failed with exit status 7" in said
    assert str(folder / "output.log") in said
    assert (folder / "output.log").read_text() == "no data\n"


def test_a_rank_whose_command_is_not_there_leaves_the_reason(tmp_path):
    target = session.Target(("no-such-launcher",), "no-such-launcher", tmp_path)
    settings = Settings(run_dir=tmp_path / "records", quiet=True)
    with pytest.raises(TrainperfError, match="cannot start no-such-launcher"):
        observe_rank.run(target, settings, PLACE, Console(file=sys.stderr))
    record = records.load(records.folder_of(tmp_path / "records", 1))
    assert record.ending is Ending.FAILED
    assert "no-such-launcher" in record.problem


def test_records_of_another_job_are_refused_by_name(rank, tmp_path):
    rank(FIRST)
    with pytest.raises(TrainperfError, match=r"holds records of another job \(job mine") as caught:
        rank(replace(PLACE, job_id="other"))
    assert "--run-dir" in caught.value.hint
    assert not records.folder_of(tmp_path / "records", 1).exists()


def test_a_record_of_the_same_rank_is_not_written_over(rank):
    rank()
    with pytest.raises(TrainperfError, match="already holds a record of rank 1 of job mine"):
        rank()


def test_a_job_that_its_launcher_started_again_replaces_its_records(rank, tmp_path):
    rank()
    _, folder, _ = rank(replace(PLACE, restarts=1))
    assert records.load(folder).place.restarts == 1
    recording = store.load_recording(folder / store.RECORDING_FILE)
    assert recording.run.board == str(tmp_path / "records" / f"{records.BOARD}-1")


def test_a_folder_that_cannot_be_written_to_is_named(rank, tmp_path):
    (tmp_path / "records").write_text("a file")
    with pytest.raises(TrainperfError, match="cannot write to") as caught:
        rank()
    assert "--run-dir" in caught.value.hint


# ------------------------------------------------------------------ the run directory


def folder_for(place, settings, sagemaker="/no/such/folder"):
    return observe_rank.run_folder(place, settings, Path(sagemaker))


def test_all_ranks_of_a_job_take_the_same_folder(tmp_path):
    settings = Settings(output_dir=tmp_path)
    found = {folder_for(replace(PLACE, rank=rank), settings) for rank in range(2)}
    assert found == {tmp_path / "job-mine"}
    strange = replace(PLACE, job_id="../my job/1")
    assert folder_for(strange, settings) == tmp_path / "job-my-job-1"


def test_a_job_without_a_name_needs_a_folder(tmp_path):
    with pytest.raises(TrainperfError, match="gives this job no name") as caught:
        folder_for(replace(PLACE, job_id=""), Settings(output_dir=tmp_path))
    assert "--run-dir" in caught.value.hint
    named = Settings(run_dir=Path("mine"))
    assert folder_for(replace(PLACE, job_id=""), named) == Path.cwd() / "mine"


def test_on_sagemaker_records_go_where_they_are_uploaded_from(tmp_path):
    (tmp_path / "output" / "data").mkdir(parents=True)
    (tmp_path / "input" / "config").mkdir(parents=True)
    uploaded = tmp_path / "output" / "data" / "trainperf" / "job-mine"
    assert folder_for(PLACE, Settings(), tmp_path) == uploaded
    chosen = Settings(output_dir=tmp_path / "chosen")
    assert folder_for(PLACE, chosen, tmp_path) == tmp_path / "chosen" / "job-mine"
    (tmp_path / "input" / "config").rmdir()  # elsewhere a folder of that name means nothing
    assert folder_for(PLACE, Settings(), tmp_path) == Settings().output_dir / "job-mine"

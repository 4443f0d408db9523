"""The records of a job's ranks become one report that names what is missing."""

import json

import pytest

from recordings import FIT, block, steps
from trainperf import store
from trainperf.errors import TrainperfError
from trainperf.machine import inspect_machine
from trainperf.model import Ending, Recording, Run
from trainperf.model.words import ranks as ranks_in_words
from trainperf.ranks import Place, records
from trainperf.ranks.merge import NOT_TRIED, merge

MACHINE = inspect_machine()
TIMES = {"real": 0.030, "resident": 0.029, "local": 0.020}


def place(rank, size, **fields):
    return Place(rank, size, "torchrun", **{"job_id": "j", **fields})


def events(rank, size, host="a", shift=0.0, **times):
    """The record of a rank; `shift` is how far its clock is off, in seconds."""
    said = [
        {"e": "hello", "pid": 100 + rank},
        {"e": "import", "name": "torch", "version": "2.13.0"},
    ]
    if rank is not None:
        launcher = {"launcher": "torchrun", "local_rank": 0}
        said.append({"e": "rank", "rank": rank, "world_size": size, "host": host, **launcher})
    said += [{**FIT, "kind": "iterator", "framework": "torch"}]
    for number in range(3):
        for phase, seconds in {**TIMES, **times}.items():
            said.append({"e": "phase", "p": phase, "b": number})
            timed = steps(phase, [seconds] * 20, number)
            said += [{**one, "s": one["s"] + shift, "t": one["t"] + shift} for one in timed]
            said.append(block(phase, seconds * 20, 20, number))
    said += [{"e": "facts", "batch_size": 16, "epoch_steps": 64}, {"e": "measured"}, {"e": "done"}]
    return [{"t": 100.0 + index + shift, **one} for index, one in enumerate(said)]


def leave(folder, rank, size, *processes, ending=Ending.MEASURED, status=0, tail="", **fields):
    """Leave the record of a rank in a run directory; `fields` are those of its `rank.json`."""
    own = records.folder_of(folder, rank)
    own.mkdir(parents=True)
    run = Run(("python", "train.py"), str(folder), "train.py")
    usual = {
        "place": place(rank, size),
        "host": "a",
        "began": "2026-11-21T10:00:00+00:00",
        "command": run.command,
        "cwd": run.cwd,
        "label": run.label,
        "frameworks": {"torch": "2.13.0"},
        "machine": MACHINE,
        "ending": ending,
    }
    records.save(records.RankRecord(**{**usual, **fields}), own)
    said = processes or (events(rank, size),)
    recorded = {100 * rank + number: tuple(each) for number, each in enumerate(said)}
    kept = Recording(run, ending, status, 0.0, 100.0, recorded, output_tail=tail)
    store.save_recording(kept, own / store.RECORDING_FILE)
    return own


def ranks(diagnosis):
    return {one.rank: one for one in diagnosis.evidence.parallel_.processes}


def test_the_ranks_of_a_job_become_one_report(tmp_path):
    for rank in range(3):
        leave(tmp_path, rank, 3, events(rank, 3, host=f"host{rank}"), host=f"host{rank}")
    found = merge(tmp_path)
    assert (
        found.evidence.parallel_.expected,
        found.evidence.parallel_.absent,
        found.evidence.parallel_.hosts,
    ) == (3, (), 3)
    assert [one.ended for one in found.evidence.parallel_.processes] == ["measured"] * 3
    assert [one.host for one in found.evidence.parallel_.processes] == ["host0", "host1", "host2"]
    assert found.step_s == pytest.approx(0.030)
    assert (found.evidence.machine, found.script) == (MACHINE, "train.py")
    assert (found.trying.mode, found.trying.reason) == ("none", NOT_TRIED)


def test_ranks_are_compared_by_what_they_counted_whatever_their_clocks_say(tmp_path):
    together, apart = tmp_path / "together", tmp_path / "apart"
    for rank, late in enumerate((0.020, 0.020, 0.028)):
        leave(together, rank, 3, events(rank, 3, local=late))
        leave(apart, rank, 3, events(rank, 3, local=late, shift=-5e5 * rank))
    one, other = merge(together), merge(apart)
    assert one.evidence.parallel_ == other.evidence.parallel_
    assert [each.rank for each in one.evidence.parallel_.stragglers] == [2]


def test_the_lowest_rank_that_trained_speaks_for_the_script(tmp_path):
    leave(tmp_path, 0, 3, [{"e": "hello", "t": 0.0, "pid": 1}], ending=Ending.FAILED, status=1)
    leave(tmp_path, 1, 3, events(1, 3, real=0.050))
    leave(tmp_path, 2, 3, events(2, 3, real=0.070))
    found = merge(tmp_path)
    assert found.step_s == pytest.approx(0.050)
    assert ranks(found)[0].ended == "failed with exit status 1"
    assert found.evidence.parallel_.absent == ()


def test_a_job_that_was_stopped_because_one_rank_failed_has_failed(tmp_path):
    leave(tmp_path, 0, 2, ending=Ending.INTERRUPTED, status=-9)
    leave(tmp_path, 1, 2, ending=Ending.FAILED, status=1, tail="out of data")
    found = merge(tmp_path)
    assert (found.ending, found.output_tail) == (Ending.FAILED, "rank 1, on a:\nout of data")
    assert found.step_s == pytest.approx(0.030)


def test_the_rank_that_failed_first_is_shown_and_not_those_it_took_along(tmp_path):
    lost = "RuntimeError: Connection closed by peer [10.0.0.2]:47853"
    leave(tmp_path, 0, 3, ending=Ending.FAILED, status=1, tail=lost)
    leave(tmp_path, 1, 3, ending=Ending.FAILED, status=1, tail="KeyError: 'label'")
    leave(tmp_path, 2, 3, ending=Ending.FAILED, status=1, tail=lost)
    assert merge(tmp_path).output_tail == "rank 1, on a:\nKeyError: 'label'"


def test_ranks_that_do_not_know_of_each_other_are_still_told_of(tmp_path):
    alone = [one for one in events(0, 3) if one["e"] != "rank"]
    leave(tmp_path, 0, 3, alone)
    leave(tmp_path, 1, 3, [{"e": "hello", "t": 0.0, "pid": 1}], ending=Ending.FAILED, status=1)
    found = merge(tmp_path)
    assert found.step_s == pytest.approx(0.030)
    assert found.evidence.parallel_ is None
    assert "rank 2 of 3 left no record" in found.notes
    assert "rank 1: failed with exit status 1" in found.notes


def test_a_record_that_was_cut_short_is_named_and_the_report_goes_on(tmp_path):
    leave(tmp_path, 0, 2)
    file = leave(tmp_path, 1, 2) / store.RECORDING_FILE
    file.write_bytes(file.read_bytes()[:1000])
    found = merge(tmp_path)
    assert found.step_s == pytest.approx(0.030)
    assert str(file) in ranks(found)[1].ended
    assert "cut short" in ranks(found)[1].ended


def test_a_rank_that_does_not_say_who_it_is_is_missing_with_a_reason(tmp_path):
    leave(tmp_path, 0, 2)
    file = leave(tmp_path, 1, 2) / records.RANK_FILE
    file.write_text("{")
    found = merge(tmp_path)
    assert found.evidence.parallel_.absent == (1,)
    assert any(str(file) in note for note in found.notes)


def test_what_a_killed_trainperf_had_on_disk_is_read(tmp_path):
    leave(tmp_path, 0, 2)
    own = leave(tmp_path, 1, 2, ending=None)
    (own / store.RECORDING_FILE).unlink()
    lines = [json.dumps(one) for one in events(1, 2)]
    (own / "events-7.jsonl").write_text("\n".join(lines[:-40]) + "\n" + lines[-40][:9])
    (own / "output.log").write_text("the last words")
    found = merge(tmp_path)
    killed = ranks(found)[1]
    assert killed.ended.startswith("killed by a signal while ")
    assert killed.real.seconds == pytest.approx(0.030)
    assert records.load_recording(records.load(own), own).output_tail == "the last words"


def test_ranks_that_disagree_on_how_many_they_are_are_refused(tmp_path):
    for rank in range(3):  # or are of several jobs
        leave(tmp_path, rank, 4 if rank < 2 else 8)
    with pytest.raises(TrainperfError, match="8 for rank 2, 4 for ranks 0 and 1") as caught:
        merge(tmp_path)
    assert "several jobs" in caught.value.hint


def test_ranks_with_another_script_or_other_versions_are_noted(tmp_path):
    own, other = ({"script": "/a/train.py", "script_sha256": digest} for digest in "ab")
    leave(tmp_path, 0, 4, **own)
    leave(tmp_path, 1, 4, frameworks={"torch": "2.11.0"}, **own)
    leave(tmp_path, 2, 4, trainperf_version="0.0.1", **other)
    leave(tmp_path, 3, 4, **other)
    notes = merge(tmp_path).notes
    assert any("ranks 2 and 3 ran another train.py than rank 0" in note for note in notes)
    assert "rank 1 had torch 2.11.0, rank 0 torch 2.13.0" in notes
    assert any(note.startswith("rank 2 had trainperf 0.0.1, rank 0 trainperf") for note in notes)


def test_ranks_from_before_a_restart_are_left_out(tmp_path):
    leave(tmp_path, 0, 2, place=place(0, 2, restarts=1))
    leave(tmp_path, 1, 2)
    found = merge(tmp_path)
    assert found.evidence.parallel_.absent == (1,)
    assert any("before the job was started again" in note for note in found.notes)


def test_one_record_may_hold_all_ranks_of_a_host(tmp_path):
    for host in range(2):
        local = [events(2 * host + number, 4, host=f"host{host}") for number in range(2)]
        where = Place(host, 2, "SageMaker", "j", node=host)
        leave(tmp_path, host, 2, *local, place=where, host=f"host{host}")
    found = merge(tmp_path)
    assert (
        found.evidence.parallel_.expected,
        found.evidence.parallel_.absent,
        found.evidence.parallel_.hosts,
    ) == (4, (), 2)


def test_hosts_that_each_trained_a_job_of_their_own_are_noticed(tmp_path):
    for host in range(2):
        local = [events(number, 2, host=f"host{host}") for number in range(2)]
        where = Place(host, 2, "SageMaker", "j", node=host)
        leave(tmp_path, host, 2, *local, place=where)
    notes = merge(tmp_path).notes
    assert any("rank 0 is recorded twice, on host0 and on host1" in note for note in notes)


def test_a_job_in_which_nothing_trained_says_what_was_seen(tmp_path):
    for rank in range(2):
        said = [{"e": "hello", "t": 0.0, "pid": 1}]
        leave(tmp_path, rank, 3, said, ending=Ending.FAILED, status=1)
    found = merge(tmp_path)
    assert (found.loop, found.ending) == (None, Ending.FAILED)
    assert "rank 2 of 3 left no record" in found.notes
    assert "ranks 0 and 1: failed with exit status 1" in found.notes


def test_no_patch_is_made_from_a_file_that_is_not_the_jobs(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("x = 1\n")
    same, other = tmp_path / "same", tmp_path / "other"
    for folder, sha in ((same, records.digest(script)), (other, "0" * 64)):
        for rank in range(2):
            leave(folder, rank, 2, script=str(script), script_sha256=sha)
    assert merge(same).patch is not None
    found = merge(other)
    assert found.patch is None
    assert any("no patch was made" in note for note in found.notes)


def test_an_empty_folder_is_refused_with_the_way_to_fill_it(tmp_path):
    with pytest.raises(TrainperfError, match="holds no records of ranks") as caught:
        merge(tmp_path)
    assert "--run-dir" in caught.value.hint


def test_records_none_of_which_can_be_read_are_refused_with_the_reason(tmp_path):
    for rank in range(2):
        (leave(tmp_path, rank, 2) / store.RECORDING_FILE).write_text("{")
    with pytest.raises(TrainperfError, match=r"no rank left a recording; .*cut short"):
        merge(tmp_path)
    for rank in range(2):
        (records.folder_of(tmp_path, rank) / records.RANK_FILE).write_text("{")
    with pytest.raises(TrainperfError, match=r"no record in .* can be read"):
        merge(tmp_path)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([3], "rank 3"),
        ([3, 1], "ranks 1 and 3"),
        ([0, 1, 2, 5, 7, 8], "ranks 0 to 2, 5, 7 and 8"),
        (range(1024), "ranks 0 to 1023"),
        (range(0, 64, 2), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and others, 32 in all"),
    ],
)
def test_many_ranks_are_named_shortly(numbers, text):
    assert ranks_in_words(numbers) == text

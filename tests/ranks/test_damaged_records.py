"""Records that no run wrote, whole or in part: named and left out, whatever stands in them."""

import copy
import json
import random
import resource

import pytest

from ranks.test_merging import events, leave
from trainperf import evidence, store
from trainperf.errors import TrainperfError
from trainperf.ranks import records
from trainperf.ranks.merge import merge

RANDOM = (None, True, -1, 0, 5, 10**9, 1e308, float("nan"), "", "x", [], {}, [1], {"e": 5})


def changed(own, name, change):
    file = own / name
    value = json.loads(file.read_text())
    change(value)
    file.write_text(json.dumps(value))


def names_it(diagnosis, *words):
    return any(all(word in note for word in words) for note in diagnosis.notes)


@pytest.mark.parametrize(("rank", "size"), [(0, 10**9), (-1, 2), (2, 2), (0, 0), (0, "2")])
def test_a_place_that_there_is_not_is_left_out_and_named(tmp_path, rank, size):
    leave(tmp_path, 0, 2)
    own = leave(tmp_path, 1, 2)
    changed(
        own,
        records.RANK_FILE,
        lambda value: value["place"].update(rank=rank, world_size=size),
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = merge(tmp_path)
    assert names_it(found, "rank 1 is not in the report")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_a_world_of_a_billion_in_an_event_is_no_world(tmp_path):
    leave(tmp_path, 0, 2)
    leave(tmp_path, 1, 2, events(1, 10**9))
    found = merge(tmp_path)
    assert found.evidence.parallel_.expected == 2
    assert "there is no job of 1000000000 ranks" in found.evidence.parallel_.processes[1].ended


@pytest.mark.parametrize("line", [5, None, {}, {"t": 1.0}, {"e": 3, "t": 1}])
def test_what_is_no_event_is_left_out_of_a_recording(tmp_path, line):
    leave(tmp_path, 0, 2, [*events(0, 2)])
    own = leave(tmp_path, 1, 2)

    def add(value):
        for each in value["recording"]["events"].values():
            each.append(line)

    changed(own, store.RECORDING_FILE, add)
    ended = "measured" if isinstance(line, dict) else "does not hold what it should"
    assert ended in merge(tmp_path).evidence.parallel_.processes[1].ended


def test_what_is_no_event_is_left_out_of_the_files_of_a_rank_that_was_killed(tmp_path):
    leave(tmp_path, 0, 2)
    own = leave(tmp_path, 1, 2)
    (own / store.RECORDING_FILE).unlink()
    said = "".join(json.dumps(one) + "\n" for one in events(1, 2))
    (own / "events-12.jsonl").write_text("5\nnull\n" + said + '{"t": 1}\n[[[\n')
    (own / "events-abc.jsonl").write_text("5\n")
    (own / f"events-{'9' * 5000}.jsonl"[:200]).write_text(said)
    assert merge(tmp_path).evidence.parallel_.processes[1].ended != "left no record"


def test_a_record_that_speaks_for_the_script_and_is_damaged_gives_way_to_the_next(tmp_path):
    def damage(value):
        for each in value["recording"]["events"].values():
            for event in each:
                if event["e"] == "facts":
                    event["batch_size"] = "many"

    own = leave(tmp_path, 0, 2)
    leave(tmp_path, 1, 2)
    changed(own, store.RECORDING_FILE, damage)
    found = merge(tmp_path)
    assert found.step_s == pytest.approx(0.030)
    assert "rank-00000 is damaged" in found.evidence.parallel_.processes[0].ended


def test_where_no_record_can_be_read_in_all_its_parts_what_can_be_is_reported(
    tmp_path, monkeypatch
):
    def broken(observed):
        raise KeyError("broken")

    monkeypatch.setattr(evidence, "functions", broken)
    for rank in range(2):
        leave(tmp_path, rank, 2)
    found = merge(tmp_path)
    assert found.step_s is not None
    assert [rank.ended for rank in found.evidence.parallel_.processes] == ["measured", "measured"]
    assert names_it(found, "could not be read: KeyError: 'broken'")


def test_whatever_stands_in_a_record_merge_reports_or_refuses(tmp_path):
    """A hundred records with a few of their values changed, removed or repeated."""
    chance = random.Random(16)
    reported = 0
    for number in range(100):
        said = copy.deepcopy(events(0, 2))
        for _ in range(chance.randint(1, 4)):
            damage(said, chance)
        folder = tmp_path / str(number)
        folder.mkdir()
        own = leave(folder, 0, 2)
        leave(folder, 1, 2)

        def put(value, said=said):
            value["recording"]["events"] = {"7": said}

        changed(own, store.RECORDING_FILE, put)
        try:
            merge(folder)
        except TrainperfError:
            continue
        reported += 1
    assert reported > 80  # the other rank is whole


def damage(said, chance):
    event = chance.choice(said)
    key = chance.choice(list(event))
    match chance.randrange(3):
        case 0:
            event[key] = chance.choice(RANDOM)
        case 1:
            del event[key]
            event.setdefault("x", 1)
        case _:
            said.insert(chance.randrange(len(said)), copy.deepcopy(event))

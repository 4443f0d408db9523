"""Ranks begin and end every phase at the same step, however far apart they run."""

import itertools
import random
import threading
import time

import pytest

from kit.child import Watcher, within
from trainperf.child.job import ranks
from trainperf.child.job.ranks import FileBoard, World
from trainperf.child.timing.loop import FIRST, IDLE, INPUT, LOCAL, REAL, RESIDENT, RankPlan

PHASES = (REAL, RESIDENT, INPUT)


class Coupled:
    """Ranks that meet in an exchange: none is more than `apart` steps ahead of another."""

    def __init__(self, size, apart):
        self.at = [0] * size
        self.apart = apart
        self.moved = threading.Condition()

    def step(self, rank):
        with self.moved:
            self.at[rank] += 1
            self.moved.notify_all()
            self.moved.wait_for(lambda: self.at[rank] - min(self.at) <= self.apart, timeout=20)


def train(folder, size, apart, seed, silent=()):
    """Run the plans of all ranks against each other; what each began at which step."""
    coupled = Coupled(size, apart)
    began = [[] for _ in range(size)]
    faults = []

    def one(rank):
        chance = random.Random(seed * 100 + rank)
        world = World(rank, size, FileBoard(folder))
        plan = RankPlan(time.monotonic, within(0.05), (*PHASES, LOCAL), world, "iterator")
        try:
            while plan.wants_more:
                if plan.arrived() and plan.phase != INPUT:
                    plan.advance()
                    began[rank].append((plan.phase, plan.block.index, plan.begun))
                while plan.phase == INPUT:
                    plan.advance()
                    began[rank].append((plan.phase, plan.block.index, plan.begun))
                plan.begin_if_settled()
                time.sleep(chance.random() * 0.002)
                plan.step_ended(0.001)
                coupled.step(rank)
        except Exception as error:
            faults.append(error)
        coupled.at[rank] = 10**9

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not [one for one in threads if one.is_alive()]
    assert not faults
    return began


@pytest.mark.parametrize("apart", [1, 3, 40])
def test_all_ranks_change_phases_at_the_same_steps(tmp_path, apart):
    began = train(str(tmp_path / "board"), 3, apart, seed=apart)
    assert began[0] == began[1] == began[2]
    assert {phase for phase, _, _ in began[0]} >= {REAL, RESIDENT, LOCAL, INPUT}


def test_ranks_that_take_no_part_are_named_and_only_real_steps_are_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks, "MEET_S", 0.0)
    world = World(0, 3, FileBoard(str(tmp_path)))
    plan = RankPlan(time.monotonic, within(0.05), PHASES, world, "fit")
    began = []
    for _ in range(400):
        if not plan.wants_more:
            break
        if plan.arrived():
            plan.advance()
            began.append(plan.phase)
        plan.begin_if_settled()
        plan.step_ended(0.01)
    assert world.absent == (1, 2)
    assert began == [REAL, REAL, REAL, "done"]


def test_a_rank_that_waits_for_a_dead_leader_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks, "SAY_S", 0.02)
    world = World(1, 2, FileBoard(str(tmp_path)))
    with pytest.raises(RuntimeError, match="rank 0 did not say"):
        world.word_of_first("loop-1-fit", "warm", lambda: 1)
    monkeypatch.setattr(ranks, "SAY_S", 60.0)
    leader = RankPlan(
        time.monotonic, within(1.0), PHASES, World(0, 2, FileBoard(str(tmp_path))), "fit"
    )
    leader.leave()
    with pytest.raises(RuntimeError, match="rank 0 did not say"):
        world.word_of_first("loop-1-fit", "warm", lambda: 1)


def test_a_phase_that_is_impossible_here_takes_its_steps_all_the_same(tmp_path):
    world, leader = (World(rank, 2, FileBoard(str(tmp_path))) for rank in (1, 0))
    block = {"b": 0, "s": 1.0, "settle": 1}
    blocks = [{"p": RESIDENT, "n": 4, **block}, {"p": REAL, "n": 2, **block}]
    plan = RankPlan(time.monotonic, within(1.0), PHASES, world, "fit")
    leader.word_of_first("loop-1-fit", "warm", lambda: FIRST + 1)
    leader.word_of_first("loop-1-fit", "schedule", lambda: {"blocks": blocks, "absent": []})
    while not plan.arrived():
        plan.step_ended(0.01)
    assert plan.begun == FIRST + 1
    plan.advance()
    plan.give_up(RESIDENT)
    assert plan.phase == IDLE
    steps = 0
    while not plan.arrived():
        steps += 1
    assert steps == 4  # the one that began with the block, and four more before the next
    plan.advance()
    assert plan.phase == REAL


OMPI = "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4"
SLURM = "SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8"


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        (f"{OMPI} TORCHELASTIC_RUN_ID=x RANK=1 WORLD_SIZE=4", (1, 4)),
        (OMPI, (2, 4)),
        (SLURM, (3, 8)),
        ("RANK=0 WORLD_SIZE=2", (0, 2)),
    ],
)
def test_what_the_launcher_says_is_recorded(environ, place, monkeypatch):
    for name in itertools.chain(*ranks.PLACES):
        monkeypatch.delenv(name, raising=False)
    for word in environ.split():
        monkeypatch.setenv(*word.split("="))
    watcher = Watcher()
    assert ranks.find(watcher, None, lambda: None) is None  # nothing ties it to the others
    (event,) = watcher.record.of("rank")
    assert (event["rank"], event["world_size"]) == place
    assert event["tied"] is False


def test_nobody_waits_for_a_rank_that_is_late_or_absent(tmp_path):
    world, other = (World(rank, 2, FileBoard(str(tmp_path))) for rank in range(2))
    assert world.all_say("late", 1, timeout_s=0.0) is None
    other.say("there", 2)
    assert world.all_say("there", 1) == [1, 2]
    world.absent = (1,)
    assert world.all_say("absent", 1, timeout_s=1e9) is None
    assert not world.meet("absent", timeout_s=1e9)

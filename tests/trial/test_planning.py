import socket
from dataclasses import replace
from pathlib import Path

import pytest

from fixes.boxes import GIB, cores
from fixes.case_text import evidence_of
from recordings import recording
from rewriting import marked
from trainperf.fixes import all_fixes, by_id
from trainperf.model import (
    Ending,
    Equivalence,
    Finding,
    HostSample,
    Item,
    Length,
    Outcome,
    Sample,
    Site,
    Training,
    Variant,
)
from trainperf.patch.patch import Edits
from trainperf.recording.run import Epoch
from trainperf.trial.budget import CACHES, WARM_UP_STEPS, Clock
from trainperf.trial.candidates import Candidate
from trainperf.trial.legs.environment import spins
from trainperf.trial.planning import (
    DECIDED,
    NO_EPOCH,
    NOT_WORTH,
    SEED,
    Freed,
    Subject,
    plan,
)

PLAIN, (MAP, READ, COMPILE) = marked(
    "import tensorflow as tf\nds = ▸files.map(load)◂\nds = ▸ds.interleave(read)◂\n"
    '▸model.compile("adam", "mse")◂\n'
)
FIXES = {fix.id: fix for fix in all_fixes()}


def finding(fix, bound, where=MAP, **fields):
    one = FIXES[fix]
    return Finding(
        fix, one.category, fix, "", bound, "", fields.pop("equivalence", one.equivalence), (where,),
        rewritable=fields.pop("rewritable", True), variants=fields.pop("variants", ()), data=fields,
    )  # fmt: skip


PARALLEL = finding("tf_map_parallel", 1.5)
INTERLEAVE = finding("tf_interleave_parallel", 1.9, READ)
CACHE = finding("tf_cache", 4.0)
XLA = finding("keras_jit_compile", 1.2, COMPILE)
ADVICE = finding("torch_graph_breaks", None, rewritable=False)


EPOCH = Epoch(100, 10.0)
EIGHT_CORES = cores(8, memory_available=32 * GIB)


@pytest.fixture
def subject(tmp_path):
    (tmp_path / "train.py").write_text(PLAIN)

    def make(*findings, seconds=180.0, first=5.0, epoch_steps=100, rss=0, **fields):
        guarded = fields.pop("guarded", ("/home/me/project",))
        changes = fields.pop("changes", {})
        laid = {"startup.to_first_step_s": first} if first is not None else {"startup": None}
        seen = evidence_of("healthy | times.real = 0.1", {**laid, "loop.epoch_steps": epoch_steps})
        samples = (Sample(0.0, HostSample(1.0, 1.0, rss, 1, 1)),) if rss else ()
        seen_run = recording(samples=samples)
        seen_run = replace(seen_run, run=replace(seen_run.run, guarded=guarded), **changes)
        return Subject(
            seen_run, seen, findings, EIGHT_CORES, Edits(tmp_path, by_id()), tmp_path / "runs",
            began=0.0, deadline=seconds, **fields,
        )  # fmt: skip

    return make


def planned(subject, now=20.0):
    return plan(subject, Clock(subject.deadline, lambda: False, lambda: now))


def names(made):
    return [one.name for one in made.chosen]


def reasons(made):
    return {one.fix: one.reason for one in made.skipped}


def job(*places):
    """The events of ranks that trained on this host, by process id."""
    return {100 + n: (place, {"e": "loop"}) for n, place in enumerate(places)}


def place(rank, size=2, host="", launcher="torchrun"):
    host = host or socket.gethostname()
    return {"e": "rank", "rank": rank, "world_size": size, "host": host, "launcher": launcher}


def torchrun(subject, words="torchrun --nproc_per_node 2 train.py"):
    run = replace(
        subject.recording.run, command=tuple(words.split()), cwd=str(subject.folder.parent)
    )
    return replace(subject, recording=replace(subject.recording, run=run))


def test_what_gained_nothing_in_the_loop_is_not_tried(subject):
    """The budget and the order are those of what is left."""
    slower = evidence_of("small_batch | probes.jit_compile = 0.43; probes.jit_compile.pairs = 6")
    given = subject(XLA, PARALLEL)
    given = replace(given, evidence=replace(given.evidence, probes=slower.probes))
    made = planned(given)
    assert (names(made), made.how.mode) == (["tf_map_parallel"], "side by side")
    (slower,) = made.skipped
    assert (slower.fix, slower.outcome, slower.speedup) == (XLA.id, Outcome.SLOWER, 0.43)

    alone = planned(replace(given, findings=(XLA,)))
    assert (alone.how.mode, alone.how.reason) == ("none", DECIDED)
    assert alone.skipped == made.skipped


def test_all_that_fits_is_tried_side_by_side_in_the_order_of_the_report(subject):
    made = planned(subject(PARALLEL, INTERLEAVE, ADVICE))
    assert made.how.mode == "side by side"
    assert (made.how.mode_reason, made.how.reason, made.how.budget_needed_s) == ("", "", None)
    assert names(made) == ["tf_map_parallel", "tf_interleave_parallel"]
    assert [one.hope for one in made.chosen] == pytest.approx([1.5, 1.9])
    assert list(reasons(made)) == ["torch_graph_breaks"]


def test_every_leg_has_the_same_seed_and_warm_up(subject):
    made = planned(subject(PARALLEL, INTERLEAVE))
    runs = [made.changes.run, *(one.run for one in made.chosen)]
    assert {run.seed for run in runs} == {SEED}
    assert {run.env["PYTHONHASHSEED"] for run in runs} == {"0"}
    assert {(run.leg.warm_up_steps, run.leg.warm_up_epochs) for run in runs} == {(WARM_UP_STEPS, 0)}
    assert made.changes.run.sources == {}


def test_what_is_tried_on_top_of_others_has_their_edits_and_is_named_by_its_own(subject):
    first = subject(PARALLEL, XLA, INTERLEAVE)
    first = replace(first, freed=Freed(first.evidence, (XLA, INTERLEAVE)))
    made = planned(first.on_top_of((PARALLEL,), {"tf_interleave_parallel"}))
    (jit,) = made.chosen
    assert jit.fixes == ("keras_jit_compile",)
    ((_, text),) = jit.run.sources.items()
    assert b"num_parallel_calls=tf.data.AUTOTUNE" in text
    assert b"jit_compile=True" in text
    assert made.changes.run.sources == {}
    assert made.changes.join(("keras_jit_compile",)).run == jit.run


def test_what_does_not_go_together_with_what_is_beneath_is_named(subject):
    first = subject(PARALLEL)
    twice = replace(PARALLEL, id="tf_interleave_parallel")
    first = replace(first, freed=Freed(first.evidence, (XLA, twice)))
    made = planned(first.on_top_of((PARALLEL,), ()))
    assert names(made) == ["keras_jit_compile"]
    assert reasons(made)["tf_interleave_parallel"].startswith(
        "does not go together with tf_map_parallel: "
    )


def test_only_the_leg_that_needs_a_whole_epoch_first_waits_for_it(subject):
    made = planned(subject(CACHE, PARALLEL))
    assert names(made) == ["tf_cache", "tf_map_parallel"]
    assert [one.run.leg.warm_up_epochs for one in made.chosen] == [1, 0]
    assert made.changes.run.leg.warm_up_epochs == 0
    assert made.changes.join(("tf_cache", "tf_map_parallel")).run.leg.warm_up_epochs == 1


@pytest.mark.parametrize("bound", [1.01, 1.04])
def test_what_cannot_matter_is_not_tried_unless_it_is_the_first(subject, bound):
    hopeless = finding("tf_interleave_parallel", bound, READ)
    made = planned(subject(PARALLEL, hopeless))
    assert names(made) == ["tf_map_parallel"]
    assert reasons(made) == {"tf_interleave_parallel": NOT_WORTH.format(100 * (1 - 1 / bound))}
    assert names(planned(subject(hopeless, PARALLEL))) == [
        "tf_interleave_parallel",
        "tf_map_parallel",
    ]


@pytest.mark.parametrize(("steps_s", "tried"), [(90.0, True), (4.0, False)])
def test_what_saves_little_of_the_whole_training_cannot_matter(subject, steps_s, tried):
    items = (
        Item("steps", "training steps", 99, steps_s),
        Item("between", "validation", 4, 100.0 - steps_s),
    )
    whole = Training(Length(100, "100 steps"), seconds_now=100.0, items=items)
    made = planned(subject(CACHE, PARALLEL, training=whole))
    assert names(made) == (["tf_cache", "tf_map_parallel"] if tried else ["tf_cache"])
    assert {one.share for one in made.chosen} == {steps_s / 100}
    assert reasons(made) == ({} if tried else {"tf_map_parallel": NOT_WORTH.format(100 * 0.04 / 3)})


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        (None, NO_EPOCH),
        (312_500_000, "it shows after a whole epoch, of 312,500,000 steps here"),
    ],
)
def test_nobody_waits_for_an_epoch_of_unknown_length_or_without_end(subject, steps, why):
    made = planned(subject(CACHE, PARALLEL, epoch_steps=steps))
    assert names(made) == ["tf_map_parallel"]
    assert reasons(made) == {"tf_cache": why}
    assert made.changes.run.leg.warm_up_epochs == 0
    assert (made.how.budget_needed_s or 0.0) < 3600


def test_a_script_that_starts_too_slowly_is_told_the_budget_that_would_do(subject):
    made = planned(subject(PARALLEL, first=300.0))
    assert (made.how.mode, made.chosen) == ("none", ())
    needed = made.how.budget_needed_s
    assert made.how.reason == (
        "the script needs 302 s to warm up and 158 s of the budget were left; "
        f"with --budget {needed:.0f}s its fixes would be tried"
    )
    assert list(reasons(made)) == ["tf_map_parallel"]
    assert planned(subject(PARALLEL, first=300.0, seconds=needed)).chosen


TAKES = "the script takes {}.0 GiB of memory, and 32.0 GiB is free"
BESIDE_NEIGHBOURS = "use[real].others_cores = 1.1; use[real].waited = 0.3"


@pytest.mark.parametrize(
    ("case", "given", "busy", "spin"),
    [
        (f"torch_healthy | {BESIDE_NEIGHBOURS}", {"OMP_WAIT_POLICY": "active"}, 0.1, False),
        (f"torch_healthy | {BESIDE_NEIGHBOURS}", {"OMP_NUM_THREADS": "1"}, 0.1, False),
        (f"torch_healthy | {BESIDE_NEIGHBOURS}; device = GPU", {}, 0.1, False),
        (f"healthy | {BESIDE_NEIGHBOURS}", {}, 0.1, False),
        ("torch_healthy | use = []", {}, 0.1, False),
        ("torch_healthy", {}, 0.1, False),
        ("torch_healthy", {}, 0.9, True),
        (f"torch_healthy | {BESIDE_NEIGHBOURS}", {}, 0.1, True),
    ],
)
def test_threads_of_openmp_sleep_where_neighbours_take_the_cores(case, given, busy, spin):
    assert spins(evidence_of(case), given, busy) is spin


def beside_neighbours(one):
    beside = evidence_of(f"torch_healthy | {BESIDE_NEIGHBOURS}")
    seen = replace(one.evidence, framework=beside.framework, use=beside.use)
    return replace(one, evidence=seen)


def test_no_trial_is_refused_for_what_threads_took_that_spun_beside_neighbours(subject):
    slow = subject(PARALLEL, first=300.0)
    assert planned(slow).how.mode == "none"
    made = planned(beside_neighbours(slow))
    assert (made.how.mode, names(made)) == ("side by side", ["tf_map_parallel"])


@pytest.mark.parametrize(
    ("how", "mode", "why", "slots"),
    [
        ({"sequential": True}, "one after another", "as asked for with --sequential", 1),
        ({"rss": 13 * GIB}, "one after another", TAKES.format(13), 1),
        ({"rss": 12 * GIB}, "side by side", "", 2),
        ({"rss": 8 * GIB}, "side by side", "", 3),
    ],
)
def test_legs_stand_side_by_side_as_far_as_they_fit(subject, how, mode, why, slots):
    made = planned(subject(PARALLEL, **how))
    assert (made.how.mode, made.how.mode_reason) == (mode, why)
    assert made.costs.slots == slots


def test_all_legs_share_what_they_compile_apart_from_the_users(subject):
    one = subject(PARALLEL, INTERLEAVE)
    user = replace(one.recording.run, env={"TORCHINDUCTOR_CACHE_DIR": "/home/me/compiled"})
    made = planned(replace(one, recording=replace(one.recording, run=user)))
    runs = [made.changes.run, *(candidate.run for candidate in made.chosen)]
    places = {run.env["TORCHINDUCTOR_CACHE_DIR"] for run in runs}
    assert places == {str(one.folder / CACHES / "inductor")}


def test_changes_of_the_experiment_are_tried_after_all_others_unless_they_are_allowed(subject):
    changing = finding("tf_map_parallel", 9.0, equivalence=Equivalence.SEMANTICS)
    apart = planned(subject(changing, INTERLEAVE)).chosen
    assert [(one.name, one.apart) for one in apart] == [
        ("tf_interleave_parallel", False),
        ("tf_map_parallel", True),
    ]
    allowed = planned(subject(changing, INTERLEAVE, allow_semantic=True)).chosen
    assert [(one.name, one.apart) for one in allowed] == [
        ("tf_map_parallel", False),
        ("tf_interleave_parallel", False),
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ending": Ending.FINISHED}, "ends by itself before it can be compared"),
        ({"events": {1: ({"e": "loop"},), 2: ({"e": "loop"},)}}, "2 processes train"),
        ({"events": job(place(0, 4), place(1, 4))}, "2 of them were seen to train here"),
        ({"events": job(place(0), place(1, host="other"))}, "run on several hosts"),
    ],
)
def test_what_cannot_be_stopped_and_let_go_on_is_not_started(subject, changes, reason):
    made = planned(subject(PARALLEL, changes=changes))
    assert made.chosen == ()
    assert reason in made.how.reason
    assert reason in reasons(made)["tf_map_parallel"]


def test_the_ranks_of_a_job_are_tried_together_side_by_side(subject):
    made = planned(torchrun(subject(PARALLEL, changes={"events": job(place(0), place(1))})))
    assert made.how.mode == "side by side"
    runs = [made.changes.run, *(one.run for one in made.chosen)]
    assert {run.leg.ranks for run in runs} == {2}
    assert made.changes.join(("tf_map_parallel",)).run.leg.ranks == 2
    assert planned(subject(PARALLEL)).changes.run.leg.ranks == 1


def test_ranks_that_meet_at_a_port_of_the_script_are_tried_one_after_another(subject):
    ranks = job(*(place(n, launcher="multiprocessing") for n in range(2)))
    made = planned(torchrun(subject(PARALLEL, changes={"events": ranks}), "python train.py"))
    assert made.how.mode == "one after another"
    assert "meet at the same port" in made.how.mode_reason
    assert made.chosen
    assert made.costs.slots == 1


def test_ways_to_compile_find_nothing_of_each_others_code(subject, tmp_path):
    (tmp_path / "train.py").write_text("model = Net()\n")
    site = Site("train.py", 1, "", 8, 1, 13)
    ways = Variant({"compiled": "the model"}), Variant({"compiled": "each block"})
    blocks = [{"path": ".layers", "cls": "Layer", "count": 12}]
    compiles = finding("torch_compile", 2.0, site, cls="Net", variants=ways, blocks=blocks)
    chosen = planned(subject(compiles)).chosen
    whole, parts = (one.run.env["TORCHINDUCTOR_CACHE_DIR"] for one in chosen)
    assert {Path(whole).parent.name, Path(parts).parent.parent.name} == {CACHES}
    assert [one.variant for one in chosen] == ["compiled=the model", "compiled=each block"]


def change(subject, name, **fields):
    run = replace(subject.recording.run, **fields)
    return Candidate((name,), run, Equivalence.NUMERICS, None, 0, difference=0.02)


def test_given_changes_are_tried_and_no_finding_is(subject):
    plain = subject(PARALLEL)
    faster = change(plain, "fast", sources={"/a.py": b"x"}, env={"X": "1"})
    made = planned(replace(plain, changes=(faster,)))
    assert (names(made), made.skipped) == (["fast"], ())
    (one,) = made.chosen
    assert (one.run.sources, one.run.env["X"], one.run.seed) == ({"/a.py": b"x"}, "1", SEED)
    assert one.run.leg is not None
    assert one.difference == 0.02
    assert made.changes.write(("fast",)).contents == {}

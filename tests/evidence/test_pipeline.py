from recordings import FIT, observed
from trainperf.evidence import stages
from trainperf.model import DrawnFrom, Missing, is_taken


def described(index, op, **fields):
    return {"e": "stage", "index": index, "op": op, "arguments": {}, "by_user": True, **fields}


def timed(index, seconds, count):
    return {"e": "stage_time", "index": index, "seconds": seconds, "elements_per_step": count}


def test_a_stage_costs_what_it_adds_to_its_prefix():
    source, mapped, batched = stages(
        observed(
            FIT,
            described(0, "range"),
            described(1, "map"),
            described(2, "batch"),
            timed(0, 0.0001, 32),
            timed(1, 0.001, 32),
            timed(2, 0.033, 1),
        )
    )
    assert round(source.seconds_per_step, 6) == 0.0032
    assert round(mapped.seconds_per_step, 6) == 0.0288
    assert round(batched.seconds_per_step, 6) == 0.001
    assert round(batched.cumulative, 6) == 0.033


def test_a_stage_that_makes_its_prefix_faster_costs_nothing():
    mapped, prefetched, batched = stages(
        observed(
            FIT,
            described(0, "map"),
            described(1, "prefetch"),
            described(2, "batch"),
            timed(0, 0.010, 1),
            timed(1, 0.006, 1),
            timed(2, 0.011, 1),
        )
    )
    assert prefetched.seconds_per_step == 0.0
    assert round(batched.seconds_per_step, 6) == 0.001
    assert mapped.seconds_per_step == 0.010


def test_a_stage_without_a_time_says_why_and_the_others_keep_theirs():
    source, filtered, batched = stages(
        observed(
            FIT,
            described(0, "range"),
            described(1, "filter"),
            described(2, "batch"),
            {"e": "stage_time", "index": 0, "missing": "it delivered nothing"},
            timed(1, 0.1, None),
            timed(2, 0.02, 1),
        )
    )
    assert source.seconds_per_step_ == Missing("it delivered nothing")
    assert not is_taken(filtered.seconds_per_step_)
    assert batched.seconds_per_step == 0.02


def test_a_pipeline_that_was_not_reached_says_so():
    found = stages(observed(FIT))
    assert isinstance(found, Missing)
    reason = {"e": "missing", "what": "stages", "reason": "the loop has no tf.data dataset"}
    assert stages(observed(FIT, reason)) == Missing("the loop has no tf.data dataset")


def test_only_a_stateless_serial_map_is_run_in_parallel_by_tf_data():
    plain, stateful, parallel = stages(
        observed(
            FIT,
            described(0, "map"),
            described(1, "map", stateful=True),
            {**described(2, "map"), "arguments": {"num_parallel_calls": -1}},
        )
    )
    assert plain.parallelised_by_default
    assert not stateful.parallelised_by_default
    assert not parallel.parallelised_by_default


def test_it_is_told_where_a_map_begins_to_draw_and_what_an_element_takes_there():
    drawn = {**timed(0, 0.01, 32), "drawn_from": {"line": 20, "bytes": 600}}
    mapped, batched = stages(
        observed(FIT, described(0, "map"), described(1, "batch"), drawn, timed(1, 0.4, 1))
    )
    assert mapped.drawn_from == DrawnFrom(20, 600)
    assert batched.drawn_from is None

from recordings import FIT, observed
from trainperf.evidence import stages
from trainperf.model import Missing, is_taken


def described(index, op, **fields):
    return {"e": "stage", "index": index, "op": op, "arguments": {}, "by_user": True, **fields}


def timed(index, seconds, count):
    return {"e": "stage_time", "index": index, "seconds": seconds, "elements_per_step": count}


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

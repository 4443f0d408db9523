"""By which name a strategy is at hand, and where it is not: what stays silent comes first."""

from __future__ import annotations

import pytest

from rewriting import result, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes import by_id
from trainperf.fixes.strategies._scope_edits import put_in_scope
from trainperf.fixes.strategies._source import calls_of, strategy_name

NO_NAME = {
    "it is built in a branch that may be passed over": (
        "if several:\n    strategy = ▸Mirrored()◂\n▸Model()◂\n"
    ),
    "it is built after its use": "▸Model()◂\nstrategy = ▸Mirrored()◂\n",
    "it is built on the line of its use": "strategy = ▸Mirrored()◂; ▸Model()◂\n",
    "it has a name in another function only": (
        "def make():\n    strategy = ▸Mirrored()◂\n    return strategy\n\n\n▸Model()◂\n"
    ),
    "an argument of the function has its name": (
        "strategy = ▸Mirrored()◂\n\n\ndef build(strategy):\n    return ▸Model()◂\n"
    ),
    "the name is given twice": ("strategy = ▸Mirrored()◂\nstrategy = other(strategy)\n▸Model()◂\n"),
    "it has two names": "one = two = ▸Mirrored()◂\n▸Model()◂\n",
    "an attribute holds it": "self.strategy = ▸Mirrored()◂\n▸Model()◂\n",
    "it is part of what the name holds": "strategy = wrapped(▸Mirrored()◂)\n▸Model()◂\n",
    "an import has its name": (
        "strategy = ▸Mirrored()◂\nfrom package import strategy\n▸Model()◂\n"
    ),
}


def _in_order(text):
    """The script, the site of the strategy and that of the model."""
    script, sites = script_of(text)
    first = [script.expression(site) for site in sites].index("Mirrored()")
    return script, sites[first], sites[1 - first]


@pytest.mark.parametrize("text", NO_NAME.values(), ids=NO_NAME.keys())
def test_a_strategy_has_no_name_where(text):
    script, built, used = _in_order(text)

    with pytest.raises(CannotRewrite):
        strategy_name(script, built, used)


def test_a_strategy_has_its_name_further_down_in_its_function():
    script, built, used = _in_order(
        "def main():\n    both = ▸Mirrored()◂\n    if late:\n        model = ▸Model()◂\n"
    )

    assert strategy_name(script, built, used) == "both"


def test_a_strategy_of_the_module_has_its_name_in_functions_below():
    script, built, used = _in_order(
        "both = ▸Mirrored()◂\n\n\ndef build():\n    both_of_them = 2\n    return ▸Model()◂\n"
    )

    assert strategy_name(script, built, used) == "both"


def test_the_same_name_in_a_function_beside_it_does_no_harm():
    script, built, used = _in_order(
        "def test(strategy):\n    pass\n\n\n"
        "def main():\n    strategy = ▸Mirrored()◂\n    model = ▸Model()◂\n"
    )

    assert strategy_name(script, built, used) == "strategy"


def test_only_calls_by_the_plain_name_are_calls_of_a_function():
    script, sites = script_of("▸build()◂\nother.build()\nbuilder()\nbuild\n")

    assert calls_of(script, sites[0], "build") == [sites[0]]


def test_models_that_one_function_builds_go_into_one_scope():
    script, sites = script_of(
        "def build():\n"
        "    inner = ▸Sequential([Dense(9)])◂\n"
        "    return inner, ▸Model(inner.input, inner.output)◂\n"
        "\n\n"
        "strategy = ▸MirroredStrategy()◂\n"
        "inner, model = build()\n"
        '▸model.compile("sgd")◂\n'
    )
    inner, model, strategy, compiled = sites

    put_in_scope(script, (inner, model, compiled, strategy))

    assert result(script).endswith(
        "strategy = MirroredStrategy()\n"
        "with strategy.scope():\n"
        "    inner, model = build()\n"
        '    model.compile("sgd")\n'
    )


def test_a_function_called_twice_builds_more_than_the_model():
    script, sites = script_of(
        "def build():\n    return ▸Sequential([Dense(9)])◂\n\n\n"
        "strategy = ▸MirroredStrategy()◂\n"
        "build()\n"
        "model = build()\n"
        '▸model.compile("sgd")◂\n'
    )

    with pytest.raises(CannotRewrite, match="not called in one place"):
        put_in_scope(script, (sites[0], sites[2], sites[1]))


def test_an_optimizer_given_to_the_function_is_made_outside():
    script, sites = script_of(
        "def build(optimizer):\n"
        "    model = ▸Sequential([Dense(9)])◂\n"
        "    ▸model.compile(optimizer)◂\n"
        "    return model\n"
        "\n\n"
        "strategy = ▸MirroredStrategy()◂\n"
        "model = build(Adam())\n"
    )

    with pytest.raises(CannotRewrite, match="optimizer"):
        put_in_scope(script, (sites[0], sites[1], sites[2]))


def test_a_dataset_made_for_an_argument_is_left_to_the_user():
    script, sites = script_of(
        "strategy = ▸MirroredStrategy()◂\ntrain(▸data.batch(8)◂)\nstrategy.run(step)\n"
    )
    fix = by_id()["tf_strategy_dataset"]
    finding = fix.finding(title="", text="", bound=None, bound_basis="", where=sites)

    with pytest.raises(CannotRewrite, match="plain name"):
        fix.rewrite(script, finding)

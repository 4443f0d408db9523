import pytest

from rewriting import result, script_of
from trainperf.rewrite import CannotRewrite

NK = ("num_parallel_calls", "AUTOTUNE")

CANNOT_SET = [
    ("▸ds.map(f, *rest)◂", 1, "*args"),
    ("▸ds.map(*rest)◂", 1, "*args"),
    ("▸ds.map(f, **options)◂", 1, "**keywords"),
    ("▸ds.map(f, **options)◂", None, "**keywords"),
    ("▸ds.map◂", 1, "no call"),
    ("ds.map(▸f◂)", 1, "no call"),
    ("▸ds.map(f)◂ if", 1, "parse"),
    ("x = 1▸◂", 1, "no call"),
]


@pytest.mark.parametrize(("text", "position", "reason"), CANNOT_SET)
def test_a_keyword_that_cannot_be_set_is_refused_with_a_reason(text, position, reason):
    script, sites = script_of(text)
    with pytest.raises(CannotRewrite) as refused:
        script.set_keyword(sites[0], *NK, position=position)
    assert reason in refused.value.reason
    if "parse" not in reason:
        assert script.sources() == {}


UNCHANGED = [
    "▸ds.map(f, num_parallel_calls=AUTOTUNE)◂",
    "▸ds.map(f, AUTOTUNE)◂",
    "▸ds.map(f, (AUTOTUNE))◂",
    "▸ds.map(f, AUTOTUNE, **options)◂",
    "▸ds.map(f, num_parallel_calls=AUTOTUNE, **options)◂",
    "▸ds.map(f, AUTOTUNE, *rest)◂",
]


@pytest.mark.parametrize("text", UNCHANGED)
def test_a_keyword_that_is_there_already_changes_nothing(text):
    script, sites = script_of(text)
    script.set_keyword(sites[0], *NK, position=1)
    assert script.sources() == {}
    assert script.diff() == ""


SET = [
    ("▸f()◂", "f(num_parallel_calls=AUTOTUNE)"),
    ("▸f(f'{a!r:>{w}}(', g(')'))◂", "f(f'{a!r:>{w}}(', AUTOTUNE)"),
    ("▸f(f'{a(1, 2)}' f'{{(')◂", "f(f'{a(1, 2)}' f'{{(', num_parallel_calls=AUTOTUNE)"),
    ('▸f("""\n# no, comment)\n""")◂', 'f("""\n# no, comment)\n""", num_parallel_calls=AUTOTUNE)'),
    ("▸f(  )◂", "f(num_parallel_calls=AUTOTUNE  )"),
    ("▸ds.map(f)◂", "ds.map(f, num_parallel_calls=AUTOTUNE)"),
    ("▸ds.map(f, )◂", "ds.map(f, num_parallel_calls=AUTOTUNE, )"),
    ("▸(ds.map)((f))◂", "(ds.map)((f), num_parallel_calls=AUTOTUNE)"),
    ("▸ds.map((lambda a, b: (a)))◂", "ds.map((lambda a, b: (a)), num_parallel_calls=AUTOTUNE)"),
    ("▸ds.map(lambda a, b: (a, b))◂", "ds.map(lambda a, b: (a, b), num_parallel_calls=AUTOTUNE)"),
    ("▸f(x for x in y)◂", "f((x for x in y), num_parallel_calls=AUTOTUNE)"),
    ("▸f((x for x in y))◂", "f((x for x in y), num_parallel_calls=AUTOTUNE)"),
    ("▸ds.map(f, 4)◂", "ds.map(f, AUTOTUNE)"),
    ("▸ds.map(f, None, *rest)◂", "ds.map(f, AUTOTUNE, *rest)"),
    (
        "▸ds.map(f, num_parallel_calls = (4), d=1)◂",
        "ds.map(f, num_parallel_calls = (AUTOTUNE), d=1)",
    ),
    ("▸ds.map('é', '日本', f)◂, '日'", "ds.map('é', AUTOTUNE, f), '日'"),
    ("'日本', ▸ds.map('é')◂", "'日本', ds.map('é', num_parallel_calls=AUTOTUNE)"),
    ("▸ds.map(\n    f,\n)◂\n", "ds.map(\n    f,\n    num_parallel_calls=AUTOTUNE,\n)\n"),
    ("▸ds.map(\n    f\n)◂\n", "ds.map(\n    f,\n    num_parallel_calls=AUTOTUNE\n)\n"),
    ("▸ds.map(\n    f,)◂\n", "ds.map(\n    f,\n    num_parallel_calls=AUTOTUNE,)\n"),
    (
        "▸ds.map(\n    f,  # why\n)◂\n",
        "ds.map(\n    f,  # why\n    num_parallel_calls=AUTOTUNE,\n)\n",
    ),
    (
        "▸ds.map(\n    f  # why\n)◂\n",
        "ds.map(\n    f,  # why\n    num_parallel_calls=AUTOTUNE\n)\n",
    ),
    (
        "▸ds.map(a,\n       b=1)◂\n",
        "ds.map(a,\n       b=1,\n       num_parallel_calls=AUTOTUNE)\n",
    ),
    (
        "▸ds.map(\n\tlambda x: (\n\t\tx\n\t),\n)◂\n",
        "ds.map(\n\tlambda x: (\n\t\tx\n\t),\n\tnum_parallel_calls=AUTOTUNE,\n)\n",
    ),
    ("▸ds.map(  # why\n)◂\n", "ds.map(num_parallel_calls=AUTOTUNE  # why\n)\n"),
    (
        "▸ds.map(\r\n    f,\r\n)◂\r\n",
        "ds.map(\r\n    f,\r\n    num_parallel_calls=AUTOTUNE,\r\n)\r\n",
    ),
]


@pytest.mark.parametrize(("text", "after"), SET)
def test_a_keyword_is_set_in_the_layout_of_the_call(text, after):
    script, sites = script_of(text)
    script.set_keyword(sites[0], *NK, position=1)
    assert result(script) == after


@pytest.mark.parametrize(("text", "after"), SET)
def test_asking_twice_edits_once(text, after):
    script, sites = script_of(text)
    script.set_keyword(sites[0], *NK, position=1)
    script.set_keyword(sites[0], *NK, position=1)
    assert result(script) == after


def test_two_keywords_come_in_the_order_asked():
    for text, after in [
        ("▸f()◂", "f(a=1, b=2)"),
        ("▸f(x)◂", "f(x, a=1, b=2)"),
        ("▸f(\n    x,  # x\n)◂", "f(\n    x,  # x\n    a=1,\n    b=2,\n)"),
        ("▸f(\n    x  # x\n)◂", "f(\n    x,  # x\n    a=1,\n    b=2\n)"),
        ("▸f(\n    x\n)◂", "f(\n    x,\n    a=1,\n    b=2\n)"),
    ]:
        script, sites = script_of(text)
        script.set_keyword(sites[0], "a", "1")
        script.set_keyword(sites[0], "b", "2")
        assert result(script) == after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("▸f(x)◂", "f(x, a=1)"),
        ("▸f(x, a=0, **how)◂", "f(x, a=1, **how)"),
        ("▸f(x, 0, **how)◂", "f(x, 1, **how)"),
        ("▸f(x, **how)◂", 'f(x, **{**how, "a": 1})'),
        ("▸f(x, **self.how, b=2)◂", 'f(x, **{**self.how, "a": 1}, b=2)'),
        ("▸f(\n    x,\n    **how()  # why\n)◂", 'f(\n    x,\n    **{**how(), "a": 1}  # why\n)'),
    ],
)
def test_a_keyword_may_go_among_those_that_are_passed_on(text, after):
    script, sites = script_of(text)
    script.set_keyword_or_extend(sites[0], "a", "1", position=1)
    assert result(script) == after


def test_several_keywords_go_among_those_that_are_passed_on():
    script, sites = script_of("▸f(x, **how)◂")
    script.set_keyword_or_extend(sites[0], "a", "1")
    script.set_keyword_or_extend(sites[0], "b", "2")
    names = {"f": lambda x, **given: given, "x": 0, "how": {"a": 0, "c": 3}}
    assert eval(result(script), names) == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize("text", ["▸f(**one, **two)◂", "▸f(**one or two)◂", "▸f(**{} | one)◂"])
def test_keywords_passed_on_in_another_way_are_left_alone(text):
    script, sites = script_of(text)
    with pytest.raises(CannotRewrite):
        script.set_keyword_or_extend(sites[0], "a", "1")
    assert result(script) is None


def test_two_values_for_one_keyword_are_refused_and_the_first_stays():
    for text, after in [("▸f(x)◂", "f(x, a=1)"), ("▸f(x, a=0)◂", "f(x, a=1)")]:
        script, sites = script_of(text)
        script.set_keyword(sites[0], "a", "1")
        with pytest.raises(CannotRewrite):
            script.set_keyword(sites[0], "a", "2")
        assert result(script) == after


@pytest.mark.parametrize("value", ["", "1, 2", "a=1", "1 +", "x)(", "x for"])
def test_a_value_that_is_no_expression_is_refused(value):
    script, sites = script_of("▸f(x)◂")
    with pytest.raises(CannotRewrite):
        script.set_keyword(sites[0], "a", value)


CANNOT_REMOVE = ["▸f(x)◂", "▸f(x, **a)◂", "▸f(a)◂", "▸g(f(a=1))◂", "▸f◂"]


@pytest.mark.parametrize("text", CANNOT_REMOVE)
def test_a_keyword_that_is_not_written_out_cannot_be_removed(text):
    script, sites = script_of(text)
    with pytest.raises(CannotRewrite):
        script.remove_keyword(sites[0], "a")


REMOVE = [
    ("▸f(a=1)◂", "f()"),
    ("▸f(a=1, )◂", "f( )"),
    ("▸f(x, a=1)◂", "f(x)"),
    ("▸f(x, a=(1), b=2)◂", "f(x, b=2)"),
    ("▸f(a=1, b=2)◂", "f(b=2)"),
    ("▸f(a=1, **k)◂", "f(**k)"),
    ("▸f(\n    x,  # x\n    a=1,  # a\n    b=2,  # b\n)◂", "f(\n    x,  # x\n    b=2,  # b\n)"),
    ("▸f(\n    x,\n    a=1\n)◂", "f(\n    x,\n)"),
    ("▸f(\n    a=1,\n    b=2,\n)◂", "f(\n    b=2,\n)"),
    ("▸f(\n    a=1,\n)◂", "f(\n)"),
    ("▸f(x,\n  a=1)◂", "f(x)"),
    ("▸f(x,\n  a=1,\n  b=2)◂", "f(x,\n  b=2)"),
]


@pytest.mark.parametrize(("text", "after"), REMOVE)
def test_a_keyword_is_removed_with_its_comma(text, after):
    script, sites = script_of(text)
    script.remove_keyword(sites[0], "a")
    script.remove_keyword(sites[0], "a")
    assert result(script) == after


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("▸f(a=1, b=2)◂", "f()"),
        ("▸f(x, a=1, b=2)◂", "f(x)"),
        ("▸f(a=1, b=2, c=3)◂", "f(c=3)"),
        ("▸f(a=1, x=0, b=2)◂", "f(x=0)"),
        ("▸f(x, a=1, y=0, b=2)◂", "f(x, y=0)"),
        ("▸f(x,\n  a=1,\n  b=2)◂", "f(x)"),
        ("▸f(\n    x,\n    a=1,\n    b=2,\n)◂", "f(\n    x,\n)"),
    ],
)
def test_two_keywords_are_removed_in_either_order(text, after, first):
    script, sites = script_of(text)
    script.remove_keyword(sites[0], first)
    script.remove_keyword(sites[0], "b" if first == "a" else "a")
    assert result(script) == after


@pytest.mark.parametrize("removed_first", [True, False])
@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("▸f(a=1)◂", "f(n=0)"),
        ("▸f(x, a=1)◂", "f(x, n=0)"),
        ("▸f(\n    x,\n    a=1,\n)◂", "f(\n    x,\n    n=0,\n)"),
    ],
)
def test_a_new_keyword_takes_the_place_of_a_removed_one(text, after, removed_first):
    script, sites = script_of(text)
    if removed_first:
        script.remove_keyword(sites[0], "a")
    script.set_keyword(sites[0], "n", "0")
    if not removed_first:
        script.remove_keyword(sites[0], "a")
    assert result(script) == after


def test_a_keyword_that_goes_cannot_be_set():
    script, sites = script_of("▸f(x, a=1)◂")
    script.remove_keyword(sites[0], "a")
    with pytest.raises(CannotRewrite):
        script.set_keyword(sites[0], "a", "2")
    assert result(script) == "f(x)"


@pytest.mark.parametrize("text", ["▸f()◂", "▸f(x)◂", "▸f(*x, y)◂", "▸f(x, *y)◂", "▸f(x, y=1)◂"])
def test_an_argument_that_cannot_be_told_is_not_replaced(text):
    script, sites = script_of(text)
    with pytest.raises(CannotRewrite):
        script.replace_argument(sites[0], 1, "z")


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("▸f(x, y)◂", "f(x, z)"),
        ("▸f(x, (y), *rest)◂", "f(x, (z), *rest)"),
        ("▸f(\n    x,\n    y,  # y\n)◂", "f(\n    x,\n    z,  # y\n)"),
    ],
)
def test_an_argument_is_replaced(text, after):
    script, sites = script_of(text)
    script.replace_argument(sites[0], 1, "z")
    assert result(script) == after


def test_calls_are_read_as_they_were_written():
    text = "▸model.fit(▸ds.map(f)◂, epochs=2, callbacks=[\n  a,\n], **more)◂"
    script, (fit, mapped) = script_of(text)
    script.set_keyword(fit, "epochs", "3")
    assert script.expression(mapped) == "ds.map(f)"
    assert script.call_keywords(fit) == {"epochs": "2", "callbacks": "[\n  a,\n]"}
    assert script.argument(fit, 0) == mapped
    assert script.expression(script.argument(fit, 9, "epochs")) == "2"
    assert script.argument(fit, 1) is None

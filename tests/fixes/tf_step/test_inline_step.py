"""Steps that stand in their loop: what is moved, what goes in and out, what is refused."""

from __future__ import annotations

import pytest

from rewriting import result, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_step._inline_step import compile_inline

HEAD = "import tensorflow as tf\n"
UPDATE = "optimizer.apply(tape.gradient(loss, w), w)\n"


def edited(text: str) -> str:
    script, (site, *_) = script_of(HEAD + text)
    compile_inline(script, site)
    return result(script) or ""


def refused(text: str) -> str:
    script, (site, *_) = script_of(HEAD + text)
    with pytest.raises(CannotRewrite) as error:
        compile_inline(script, site)
    assert result(script) is None
    return str(error.value)


def loop(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"for x in ds:\n    with ▸tf.GradientTape()◂ as tape:\n        loss = f(x)\n{body}"


def test_two_tapes_of_one_step_go_together_and_what_is_between_them() -> None:
    text = edited(
        "for real in ds:\n"
        "    with tf.GradientTape() as one:\n        d_loss = d(real)\n"
        "    d_opt.apply(one.gradient(d_loss, dw), dw)\n"
        "    noise = tf.random.normal([32, 8])\n"
        "    with ▸tf.GradientTape()◂ as two:\n        g_loss = g(noise)\n"
        "    g_opt.apply(two.gradient(g_loss, gw), gw)\n"
        "    log(d_loss, g_loss)\n"
    )

    assert text.endswith(
        "    return d_loss, g_loss\n\n\nfor real in ds:\n"
        "    d_loss, g_loss = train_step(real)\n    log(d_loss, g_loss)\n"
    )
    assert "    noise = tf.random.normal([32, 8])\n" in text


def test_an_update_written_by_hand_goes_along() -> None:
    text = edited(loop("for v, g in zip(w, tape.gradient(loss, w)):", "    v.assign_sub(0.1 * g)"))

    assert "    for v, g in zip(w, tape.gradient(loss, w)):\n        v.assign_sub" in text
    assert text.endswith("for x in ds:\n    loss = train_step(x)\n")


def test_what_another_function_prints_is_not_printed_once() -> None:
    reason = refused("def f(x):\n    print(x)\n    return x\n\n\n" + loop(UPDATE.strip()))

    assert "print" in reason


def test_a_name_of_the_file_is_not_taken() -> None:
    text = edited("def train_step(x):\n    pass\n\n\n" + loop(UPDATE.strip()))

    assert "loss = compiled_train_step(x)" in text


def test_what_is_bound_again_behind_the_loop_is_not_handed_out() -> None:
    text = edited(
        "for x in ds:\n    with ▸tf.GradientTape()◂ as tape:\n        y = m(x)\n"
        f"        loss = f(y)\n    {UPDATE}y = 1\nprint(y)\n"
    )

    assert "    return loss\n" in text


def test_what_is_read_behind_the_loop_is_handed_out() -> None:
    text = edited(
        "for x in ds:\n    with ▸tf.GradientTape()◂ as tape:\n        y = m(x)\n"
        f"        loss = f(y)\n    {UPDATE}print(y)\n"
    )

    assert "    loss, y = train_step(x)\n" in text


def test_names_of_the_function_around_go_in_and_those_of_the_module_do_not() -> None:
    text = edited(
        "m = 1\n\n\ndef main(w):\n    import numpy\n    scale = numpy.float32(2)\n"
        "    for x in ds:\n"
        "        with ▸tf.GradientTape()◂ as tape:\n            loss = m(x) * scale\n"
        f"        {UPDATE}"
    )

    assert "def train_step(x, scale, w):\n" in text


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("if loss > 3:", "    w = v", UPDATE.strip()), "decides in Python"),
        (("del loss", UPDATE.strip()), "binds names"),
        (("save(float(loss))", UPDATE.strip()), "float()"),
        (("np.savetxt('x', loss)", UPDATE.strip()), "np.savetxt()"),
        (("history.append(loss)", UPDATE.strip()), "append"),
        (("update(loss)",), "not seen"),
        ((UPDATE.strip(), "n = tape"), "used behind"),
    ],
)
def test_what_python_does_in_each_step_is_left_alone(lines: tuple[str, ...], why: str) -> None:
    assert why in refused(loop(*lines))


def test_a_tape_that_is_no_part_of_a_loop_is_left_alone() -> None:
    assert "loop" in refused("with ▸tf.GradientTape()◂ as tape:\n    loss = f(x)\n" + UPDATE)


def test_what_another_method_changes_is_not_traced_once() -> None:
    text = (
        "class Trainer:\n    def decay(self):\n        self.weight *= 0.9\n\n"
        "    def train(self):\n        for x in ds:\n"
        "            with ▸tf.GradientTape()◂ as tape:\n                loss = self.weight * f(x)\n"
        f"            {UPDATE}            self.decay()\n"
    )

    assert "self.weight changes" in refused(text)
    assert "train_step" in edited(text.replace("def decay", "def __init__"))


def test_a_step_below_a_condition_stays_there() -> None:
    text = edited(
        "for n, x in enumerate(ds):\n    if n % 4 == 0:\n"
        "        with ▸tf.GradientTape()◂ as tape:\n            loss = f(x)\n"
        f"        {UPDATE}"
    )

    assert text.endswith(
        "for n, x in enumerate(ds):\n    if n % 4 == 0:\n        loss = train_step(x)\n"
    )


def test_a_tape_within_a_tape_goes_along() -> None:
    text = edited(
        "for x in ds:\n    with tf.GradientTape() as tape:\n"
        "        with ▸tf.GradientTape()◂ as inner:\n            p = f(x)\n"
        f"        loss = penalty(inner.gradient(p, x))\n    {UPDATE}"
    )

    assert text.endswith("for x in ds:\n    loss = train_step(x)\n")

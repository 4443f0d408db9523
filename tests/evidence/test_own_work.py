"""Which pieces of the user's own code a step passes in, by samples and by source."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from recordings import FIT, observed
from trainperf.evidence.own_work import own_work, seen
from trainperf.evidence.work_kinds import evaluates, holds_the_step, statements

LOOP = {**FIT, "where": {"file": "train.py", "line": 40, "function": "main"}}

MOMENTUM = """\
@torch.no_grad()
def step(self):
    for i, p in enumerate(self.params):
        self.m[i] = 0.9 * self.m[i] + p.grad
        p -= 0.1 * self.m[i]
"""


def held(function: str, line: int | None, n: int, first: int = 1, **fields: Any) -> dict[str, Any]:
    count = {"file": "train.py", "def": first, "function": function, "line": line, "n": n}
    return {**count, "into": "", "within": "", "leaf": True, **fields}


def stacks(*counts: dict[str, Any], sources: dict[str, str] | None = None, **fields: Any) -> Any:
    texts = [
        {"file": "train.py", "def": 1, "function": name, "text": text}
        for name, text in (sources or {}).items()
    ]
    event = {"e": "stacks", "total": 100, "steps": 100, "fetching": 0, "counts": []}
    return {**event, "held": list(counts), "sources": texts, **fields}


def kinds(source: str, holds: bool = False) -> list[str]:
    return [kind for kind, _ in statements(ast.parse(source), holds)]


@pytest.mark.parametrize(
    "source",
    [
        "for layer in self.layers:\n    x = layer(x)",  # another thing each time
        "for i in range(3):\n    x = self.layers[i](x)",
        "for t in range(steps):\n    x = self.net(x, t)",  # rounds on the same input
        MOMENTUM,
        "for x, y in loader:\n    h = model(x, h)\n    loss(h).backward()",  # the step itself
        "for k, v in params.items():\n    print(k, v)",
    ],
)
def test_loops_that_are_no_work_of_a_known_kind(source: str) -> None:
    assert kinds(source) == []


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("for t in range(n):\n    h, c = self.cell(x[:, t], (h, c))", "recurrence"),
        ("for t in range(n):\n    xt = x[:, t]\n    h = cell(xt, h)", "recurrence"),
        ("for xt in x.unbind(1):\n    h = self.cell(xt, h)", "recurrence"),
    ],
)
def test_loops_whose_kind_the_source_shows(source: str, kind: str) -> None:
    assert kinds(source) == [kind]
    assert kinds(source, holds=True) == [kind]


@pytest.mark.parametrize("source", [MOMENTUM, MOMENTUM.replace("p -= ", "update(p, ")[:-1] + ")"])
def test_an_optimizers_step_by_hand_is_no_evaluation(source: str) -> None:
    assert not evaluates(ast.parse(source))


def test_what_stands_beside_the_step_is_told_statement_by_statement() -> None:
    source = (
        "for x, y in loader:\n"
        "    loss = f(model(x), y)\n"
        "    loss.backward()\n"
        "    if step % 10 == 0:\n"
        "        model.eval()\n"
        "        for a, b in held_out:\n"
        "            total += f(model(a), b).item()\n"
    )
    assert holds_the_step(ast.parse(source))
    assert kinds(source, holds=True) == ["evaluation"]
    assert kinds(source) == []


def test_what_calls_the_loop_and_what_the_framework_runs_is_no_work_of_its_own() -> None:
    found = own_work(
        observed(
            LOOP,
            stacks(
                held("run", 3, 98, first=90, leaf=False),  # calls `main`, which holds the loop
                held("main", 44, 90, first=30),
                held("Net.forward", 12, 50, first=10, within="model"),
            ),
        )
    )
    assert found == ()


def test_a_statement_that_calls_the_loop_is_no_evaluation() -> None:
    module = "for epoch in range(6):\n    main()\n    evaluate(data)"
    count = held("<module>", 2, 99, leaf=False)
    found = own_work(observed(LOOP, stacks(count, sources={"<module>": module})))
    assert found == ()


def test_items_made_on_the_loops_thread_are_samples_and_the_rest_is_other_work() -> None:
    found = own_work(
        observed(
            LOOP,
            stacks(
                held("Images.__getitem__", 12, 47, within="input", into="open"),
                held("report", 70, 20, first=60),
                fetching=52,
            ),
        )
    )
    assert [(work.kind, work.share) for work in found] == [("sample", 0.47), ("other", 0.20)]
    assert found[0].calls_into == "open"


def test_a_function_whose_code_has_no_lines_is_at_its_head() -> None:
    (work,) = own_work(observed(LOOP, stacks(held("report", None, 20, first=60))))
    assert (work.where.line, work.share) == (60, 0.20)


def test_a_statement_that_only_calls_a_function_is_told_as_that_function() -> None:
    evaluate = "def evaluate(m):\n    with torch.no_grad():\n        for x in d:\n            m(x)"
    main = "def main():\n    m().backward()\n    if s % 9 == 0:\n        evaluate(m)"
    found = own_work(
        observed(
            LOOP,
            stacks(
                held("main", 4, 40, leaf=False),
                held("evaluate", 24, 39, first=21),
                sources={"main": main, "evaluate": evaluate},
            )
            | {
                "sources": [
                    {"file": "train.py", "def": 1, "function": "main", "text": main},
                    {"file": "train.py", "def": 21, "function": "evaluate", "text": evaluate},
                ]
            },
        )
    )
    assert [(work.kind, work.where.function) for work in found] == [("evaluation", "evaluate")]


def test_recordings_of_before_have_no_work_and_fail_nothing() -> None:
    old = {"e": "stacks", "total": 100, "counts": []}
    assert own_work(observed(LOOP, old)) == ()
    assert seen(observed(LOOP, old)) is None


def test_what_a_model_takes_is_no_work_of_whoever_calls_it() -> None:
    into = {"first": 14, "into": "_wrapped_call_impl"}
    step = held("LanguageModel.training_step", 16, 41, **into)
    rest = held("LanguageModel.training_step", 18, 8, first=14, into="log")
    source = "def training_step(self, batch):\n    return self.model(batch)\n"
    name = "LanguageModel.training_step"
    read = observed(LOOP, stacks(step, sources={name: source}))
    assert own_work(read) == ()
    (work,) = own_work(observed(LOOP, stacks(step, rest, sources={name: source})))
    assert work.share == pytest.approx(0.08)

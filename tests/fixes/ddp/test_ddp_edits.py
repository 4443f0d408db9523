"""Loops under `no_sync()`: why one is not edited, and that the edited one takes the same turns."""

from __future__ import annotations

from fixes.case_text import repair
from rewriting import changed, executed, marked, script_of

LOOP = """\
{before}
for i, x in enumerate(loader):
    loss = ▸model(x)◂
    {between}
    ▸loss.backward()◂
    {after}
    if {test}:
        ▸optimizer.step()◂
"""


def loop(test: str, before: str = "n = 4", between: str = "pass", after: str = "pass") -> str:
    return LOOP.format(before=before, between=between, after=after, test=test)


def edited(text: str) -> str:
    """The source with `no_sync()`; the sites are DDP's call, forward, backward, step."""
    script, (wrapped, forward, backward, step) = script_of(text)
    repair("torch_ddp_no_sync", script, (forward, backward, step, wrapped), {})
    return changed(script)


def test_a_model_that_is_surely_wrapped_is_asked_for_no_sync_at_once() -> None:
    made = edited("model = ▸DDP(Net()).to(device)◂\n" + loop("(i + 1) % n == 0"))

    assert "with contextlib.nullcontext() if (i + 1) % n == 0 else model.no_sync():\n" in made


def test_a_model_that_is_not_always_wrapped_may_have_no_such_method() -> None:
    wrapped = "if ranks > 1:\n    model = ▸DDP(model)◂\n"
    made = edited(wrapped + loop("(i + 1) % n == 0"))

    assert 'or not hasattr(model, "no_sync") else model.no_sync():\n' in made


def test_what_runs_as_the_main_program_counts_as_always() -> None:
    body = "".join(
        f"    {line}\n" for line in ("model = ▸DDP(Net())◂\n" + loop("i % 2 == 1")).split("\n")
    )
    made = edited(f'if __name__ == "__main__":\n{body}')

    assert "hasattr" not in made


def test_both_ways_of_adding_up_give_the_same_turns() -> None:
    """The loop before and after, run with a model that counts what it is asked for."""
    text = "model = ▸wrap()◂\n" + loop("(i + 1) % n == 0 or i + 1 == len(loader)")
    before, _ = marked(text)

    assert _turns(before) == (0, 10, 3)
    assert _turns(edited(text)) == (7, 10, 3)


class _Model:
    """A model whose output is itself."""

    def __init__(self) -> None:
        self.spared = self.backwards = 0

    def __call__(self, batch: object) -> _Model:
        return self

    def backward(self) -> None:
        self.backwards += 1

    def no_sync(self) -> _Model:
        return self

    def __enter__(self) -> None:
        self.spared += 1

    def __exit__(self, *_: object) -> None:
        pass


def _turns(source: str) -> tuple[int, int, int]:
    """Turns without exchange, backward passes and updates of the loop in `source`."""
    model, updates = _Model(), []

    class Optimizer:
        def step(self) -> None:
            updates.append(1)

    executed(source, {"wrap": lambda: model, "loader": range(10), "optimizer": Optimizer()})
    return model.spared, model.backwards, len(updates)

"""Which debug modes are on, seen through a stand-in for TensorFlow's API."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trainperf.child.tensorflow import debug_modes


class Loops:
    """TensorFlow's loops, as far as the hooks need them."""

    def __init__(self) -> None:
        self.debug_modes: dict[str, Any] = {}
        self.process = SimpleNamespace(off=False, failed=self._failed)

    def _failed(self, what: str, error: BaseException) -> None:
        raise AssertionError(what) from error


@pytest.fixture
def loops() -> Loops:
    return Loops()


@pytest.fixture
def api(loops: Loops) -> Any:
    calls: list[Any] = []

    def made(name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> str:
            calls.append((name, args, kwargs))
            return name

        return call

    tensorflow = SimpleNamespace(
        calls=calls,
        debugging=SimpleNamespace(
            enable_check_numerics=made("on"),
            disable_check_numerics=made("off"),
            experimental=SimpleNamespace(),  # as in a version without the dump
        ),
        data=SimpleNamespace(experimental=SimpleNamespace(enable_debug_mode=made("debug"))),
        config=SimpleNamespace(experimental=SimpleNamespace(enable_op_determinism=made("same"))),
    )
    debug_modes.watch(loops, tensorflow)
    return tensorflow


def test_nothing_is_on_by_itself(loops: Loops, api: Any) -> None:
    assert debug_modes.modes(loops) == {}


def test_a_mode_is_on_from_the_users_line(loops: Loops, api: Any) -> None:
    assert api.debugging.enable_check_numerics(40, path_length_limit=60) == "on"
    assert api.calls == [("on", (40,), {"path_length_limit": 60})]
    (found,) = debug_modes.modes(loops).items()
    assert found[0] == "numerics"
    assert found[1]["file"] == __file__
    assert found[1]["function"] == "test_a_mode_is_on_from_the_users_line"


def test_a_mode_that_is_turned_off_again_is_not_on(loops: Loops, api: Any) -> None:
    api.debugging.enable_check_numerics()
    api.debugging.disable_check_numerics()
    assert debug_modes.modes(loops) == {}


def test_modes_stand_beside_each_other(loops: Loops, api: Any) -> None:
    api.config.experimental.enable_op_determinism()
    api.data.experimental.enable_debug_mode()
    assert list(debug_modes.modes(loops)) == ["eager_input", "deterministic"]


def test_what_trainperf_turns_on_is_not_the_users(loops: Loops, api: Any) -> None:
    loops.process.off = True
    api.debugging.enable_check_numerics()
    assert debug_modes.modes(loops) == {}


def test_a_mode_that_fails_to_start_is_not_on(loops: Loops) -> None:
    def fails() -> None:
        raise ValueError("no")

    debugging = SimpleNamespace(enable_check_numerics=fails)
    debug_modes.watch(loops, SimpleNamespace(debugging=debugging))
    with pytest.raises(ValueError, match="no"):
        debugging.enable_check_numerics()
    assert debug_modes.modes(loops) == {}

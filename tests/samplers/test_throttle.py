from __future__ import annotations

from trainperf.fixes.gpu.cards import LEAST_SHARES
from trainperf.samplers.nvml import throttle_words


def test_a_bit_without_a_name_is_not_lost() -> None:
    assert throttle_words(0x4 | 0x800) == ("power cap", "reason 0x800")


def test_heat_is_harmful_and_the_power_cap_is_not() -> None:
    heat, cap = throttle_words(0x40), throttle_words(0x4)
    assert LEAST_SHARES.keys() >= set(heat)
    assert LEAST_SHARES.keys().isdisjoint(cap)


def test_every_harmful_word_is_one_that_a_gpu_can_say() -> None:
    assert LEAST_SHARES.keys() <= set(throttle_words(0x1FF))

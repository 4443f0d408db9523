from __future__ import annotations

from trainperf.samplers import throttle


def test_a_bit_without_a_name_is_not_lost() -> None:
    assert throttle.words(0x4 | 0x800) == ("power cap", "reason 0x800")


def test_heat_is_harmful_and_the_power_cap_is_not() -> None:
    heat, cap, chosen = throttle.words(0x40), throttle.words(0x4), throttle.words(0x2)
    assert throttle.HARMFUL.issuperset(heat)
    assert throttle.HARMFUL.isdisjoint(cap + chosen)


def test_every_harmful_word_is_one_that_a_gpu_can_say() -> None:
    assert throttle.HARMFUL.issubset(throttle.words(0x1FF))

"""Legs on a CPU get huge pages where there are some, unless the user has said how memory is got."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixes.case_text import evidence_of
from trainperf.trial.legs import environment as legs
from trainperf.trial.legs.environment import HUGE_PAGES, environment, huge_pages


@pytest.fixture
def offered(tmp_path: Path) -> Path:
    file = tmp_path / "enabled"
    file.write_text("always [madvise] never\n")
    return file


def test_a_kernel_that_gives_none_is_not_asked(offered, tmp_path) -> None:
    seen = evidence_of("slow_images")
    assert huge_pages(seen, {}, offered) == HUGE_PAGES
    offered.write_text("always madvise [never]\n")
    assert huge_pages(seen, {}, offered) == {}
    assert huge_pages(seen, {}, tmp_path / "gone") == {}


def test_what_the_user_says_of_memory_stands(offered) -> None:
    given = {"GLIBC_TUNABLES": "glibc.malloc.check=1"}
    assert huge_pages(evidence_of("slow_images"), given, offered) == {}


@pytest.mark.parametrize("repeated", [True, False])
def test_a_gain_that_is_not_repeated_without_them_has_none(repeated, monkeypatch) -> None:
    monkeypatch.setattr(legs, "huge_pages", lambda *_: HUGE_PAGES)
    made = environment(evidence_of("slow_images"), {}, None, repeated)
    assert made.huge_pages is repeated is ("GLIBC_TUNABLES" in made.variables)

"""Legs on a CPU get huge pages where there are some, unless the user has said how memory is got."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixes.case_text import evidence_of
from trainperf.trial.legs.environment import HUGE_PAGES, available, huge_pages


@pytest.fixture
def offered(tmp_path: Path) -> Path:
    file = tmp_path / "enabled"
    file.write_text("always [madvise] never\n")
    return file


def test_a_kernel_that_gives_none_is_not_asked(offered, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("os.confstr", lambda name: "glibc 2.35")
    assert available(offered)
    offered.write_text("always madvise [never]\n")
    assert not available(offered)
    assert not available(tmp_path / "gone")


def test_what_the_user_says_of_memory_stands(offered, monkeypatch) -> None:
    monkeypatch.setattr("os.confstr", lambda name: "glibc 2.41")
    seen = evidence_of("slow_images | use = []")
    assert huge_pages(seen, {}, offered) == HUGE_PAGES
    assert huge_pages(seen, {"GLIBC_TUNABLES": "glibc.malloc.check=1"}, offered) == {}


# new pages: 0.02 of the step; 0.13 of it, 28 MB; 0.08 of it, 160 MB
@pytest.mark.parametrize(
    ("step_s", "faults_s", "given"),
    [(1.0, 20_000.0, HUGE_PAGES), (0.05, 145_000.0, HUGE_PAGES), (0.46, 84_000.0, {})],
)
def test_a_script_of_which_they_would_make_another_has_none(
    step_s, faults_s, given, offered, monkeypatch
) -> None:
    monkeypatch.setattr("os.confstr", lambda name: "glibc 2.41")
    use = json.dumps([{"phase": "real", "samples": 20, "faults_s": faults_s}])
    found = evidence_of(f"slow_images | times.real = {step_s}; use = {use}")
    assert huge_pages(found, {}, offered) == given

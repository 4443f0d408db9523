"""The report says where files lie and how fast they come, and what is not known."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from trainperf.model import Channel, Reads, Volume
from trainperf.report.document import Page, Section
from trainperf.report.sections.storage import storage
from trainperf.reporters.terminal.blocks import write
from trainperf.reporters.terminal.paper import Paper

MIB = 1024**2
EBS = Volume("/data", "ebs", "ext4", "nvme1n1", "Amazon Elastic Block Store", 437.5e6, "EBS base")
FILES = Reads(
    EBS,
    2000,
    640,
    4.0,
    (10_240, 20_480, 40_960),
    2000 * 20_480,
    seen_by="Python opened them",
    cold_bytes_s=125.0 * MIB,
    cold_parallel_bytes_s=250.0 * MIB,
    warm_bytes_s=2048.0 * MIB,
    open_s=4e-6,
    cold_file_s=120e-6,
    warm_file_s=7e-6,
    whole_files=True,
    probed_files=200,
    probed_bytes=200 * 20_480,
    cached_share=1.0,
    opens_per_step=64.0,
    bytes_per_step=64 * 20_480.0,
    bytes_basis="by its read calls",
    stored_per_step=0.0,
    needed_bytes_s=200.0 * MIB,
)


def said(*reads: Reads, channels: tuple[Channel, ...] = (), width: int = 200) -> str:
    diagnosis: Any = SimpleNamespace(reads=reads, channels=channels)
    file = io.StringIO()
    paper = Paper(Console(file=file, width=width))
    page = Page()
    storage(diagnosis, page)
    write(Section("", tuple(page.blocks)), paper)
    paper.print()
    return " ".join(file.getvalue().split())


def test_nothing_is_said_where_no_file_was_seen() -> None:
    assert said() == ""


def test_a_volume_without_a_device_is_named_once() -> None:
    text = said(replace(FILES, volume=Volume("/dev/shm", "tmpfs", "tmpfs", "tmpfs")))

    assert "/dev/shm: memory, tmpfs Files" in text


def test_of_mapped_files_it_says_what_came_from_storage_and_that_the_rest_is_not_known() -> None:
    mapped = replace(FILES, opens_per_step=None, bytes_per_step=None, needed_bytes_s=None)

    rest = "what it takes from memory cannot be counted"
    for stored, much in ((512.0 * 1024, "512 KiB"), (0.0, "nothing")):
        text = said(replace(mapped, stored_per_step=stored))
        assert f"Each step takes {much} from storage; {rest}" in text
    assert "Each step" not in said(replace(mapped, stored_per_step=None))
    text = said(replace(mapped, opens_per_step=4.0, stored_per_step=0.0))
    assert f"Each step opens 4.0 files; takes nothing from storage; {rest}" in text


def test_place_files_step_and_rates_are_told() -> None:
    text = said(FILES)

    for words in (
        "/data: EBS, ext4, nvme1n1; at most 417 MiB/s (EBS base)",
        "2,000 files, 39.1 MiB; the middle one has 20.0 KiB",
        "most have between 10.0 KiB and 40.0 KiB",
        "opens 64 files; reads 1.25 MiB (by its read calls); all from memory",
        "200 MiB/s if it never waited",
        "125 MiB/s by one reader, 250 MiB/s by four; a file takes 120 µs, 4.00 µs of it to open",
        "100 % of the sample was in memory after the run",
    ):
        assert words in text, text


def test_what_was_not_measured_has_its_reason_and_no_numbers() -> None:
    bare = Reads(
        Volume("/dev/shm", "tmpfs", "tmpfs"), 1, 0, 4.0, (5, 5, 5), 5, reason="in memory already"
    )

    text = said(bare)

    assert "Cold not measured: in memory already" in text
    assert "Warm" not in text
    assert "Each step" not in text
    assert "None" not in text


def test_a_count_that_is_too_low_says_so() -> None:
    assert "more than 2,000 files" in said(replace(FILES, at_least=True))


def test_channels_are_named() -> None:
    channel = Channel("train", "FastFile", "/opt/ml/input/data/train", "S3")

    assert "Channel train: FastFile mode from S3" in said(channels=(channel,))
    assert "the job's own mode" in said(channels=(replace(channel, mode=""),))


def test_volumes_beyond_the_first_few_are_counted() -> None:
    assert "and from 2 more volumes" in said(*[FILES] * 6)

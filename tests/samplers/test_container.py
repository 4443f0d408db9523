from __future__ import annotations

import os
from pathlib import Path

from kit.child import Clock
from kit.stubs import write
from trainperf.samplers.container import ContainerWatch

GIB = 1024**3
MOUNT_V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
MOUNT_V1 = (
    "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
POD, JOB = "sys/fs/cgroup/pod", "sys/fs/cgroup/pod/job"


def version_2(root: Path, **files: str) -> Path:
    found = {"proc/self/mountinfo": MOUNT_V2, "proc/self/cgroup": "0::/pod/job\n"}
    return write(root, {**found, **files})


def stall(microseconds: int) -> str:
    return (
        f"some avg10=0.00 avg60=0.00 avg300=0.00 total={microseconds}\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    )


def stat(periods: int, throttled: int, usec: int) -> str:
    return f"usage_usec 5\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {usec}\n"


def test_nothing_is_known_where_there_are_no_groups(tmp_path: Path) -> None:
    clock = Clock()
    watch = ContainerWatch(tmp_path, clock)
    clock.now += 2.0
    use = watch.use()
    assert use.seconds == 2.0
    assert (use.quota_cores, use.throttled_share) == (None, None)
    assert use.memory_pressure is None
    assert (use.memory_limit, use.memory_peak, use.memory_events) == (None, None, ())
    assert use.swapped_in is None


def test_only_what_was_throttled_meanwhile_counts(tmp_path: Path) -> None:
    files = {f"{JOB}/cpu.max": "200000 100000\n", f"{JOB}/cpu.stat": stat(1000, 900, 5_000_000)}
    root = version_2(tmp_path, **files)
    watch = ContainerWatch(root)
    write(root, {f"{JOB}/cpu.stat": stat(1100, 925, 6_500_000)})
    use = watch.use()
    assert (use.quota_cores, use.throttled_share) == (2.0, 0.25)


def test_pressure_is_the_share_of_the_time_in_which_a_task_waited(tmp_path: Path) -> None:
    files = {f"{JOB}/memory.pressure": stall(7_000), f"{JOB}/cgroup.events": "populated 1\n"}
    root = version_2(tmp_path, **files)
    clock = Clock()
    watch = ContainerWatch(root, clock)
    clock.now += 10.0
    write(root, {f"{JOB}/memory.pressure": stall(2_507_000)})
    use = watch.use()
    assert use.memory_pressure == 0.25


def test_the_highest_memory_seen_counts_without_cache_that_can_go(tmp_path: Path) -> None:
    def holding(used: int, cache: int) -> dict[str, str]:
        return {
            f"{JOB}/memory.current": f"{used}\n",
            f"{JOB}/memory.stat": f"anon 1\ninactive_file {cache}\n",
        }

    root = version_2(tmp_path, **{f"{JOB}/memory.max": f"{8 * GIB}\n", **holding(GIB, 0)})
    clock = Clock()
    watch = ContainerWatch(root, clock)
    for used, cache in ((7 * GIB, 4 * GIB), (6 * GIB, GIB), (2 * GIB, 0)):
        write(root, holding(used, cache))
        clock.now += 1.0
        watch.look()
    use = watch.use()
    assert (use.memory_limit, use.memory_peak) == (8 * GIB, 5 * GIB)


def test_kills_are_those_of_the_run_and_of_the_level_that_has_most(tmp_path: Path) -> None:
    before = "low 0\nhigh 2\noom_kill 1\n"
    root = version_2(
        tmp_path, **{f"{JOB}/memory.events": "high 0\n", f"{POD}/memory.events": before}
    )
    watch = ContainerWatch(root)
    write(root, {f"{POD}/memory.events": "low 9\nhigh 2\noom_kill 3\n"})
    assert watch.use().memory_events == (("oom_kill", 2),)


def test_version_1_counts_kills(tmp_path: Path) -> None:
    job = "sys/fs/cgroup/memory/job"
    root = write(
        tmp_path,
        {
            "proc/self/mountinfo": MOUNT_V1,
            "proc/self/cgroup": "4:memory:/job\n",
            f"{job}/memory.limit_in_bytes": f"{GIB}\n",
            f"{job}/memory.usage_in_bytes": "5000\n",
            f"{job}/memory.stat": "cache 3\ntotal_inactive_file 2000\n",
            f"{job}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
        },
    )
    watch = ContainerWatch(root)
    oom = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"
    write(root, {f"{job}/memory.oom_control": oom})
    use = watch.use()
    assert use.memory_events == (("oom_kill", 1),)
    assert (use.memory_limit, use.memory_peak) == (GIB, 3000)


def test_swapping_is_counted_in_bytes(tmp_path: Path) -> None:
    root = version_2(tmp_path, **{"proc/vmstat": "pgfault 1\npswpin 100\npswpout 50\n"})
    watch = ContainerWatch(root)
    write(root, {"proc/vmstat": "pgfault 1\npswpin 110\npswpout 50\n"})
    use = watch.use()
    assert use.swapped_in == 10 * os.sysconf("SC_PAGE_SIZE")

"""The GPU memory of a process, on a CUDA that counts as the real one does."""

from types import SimpleNamespace

from kit.child import Record
from trainperf.child.torch import memory

GIB = 2**30
HELD = (0, 3 * GIB)


def test_each_gpu_that_holds_something_is_told_and_no_other_is_opened(monkeypatch):
    opened = []
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        device_count=lambda: len(HELD),
        memory_reserved=HELD.__getitem__,
        mem_get_info=lambda index: opened.append(index) or (60 * GIB, 80 * GIB),
        get_device_properties=lambda index: SimpleNamespace(uuid="1234-5678"),
        memory_stats=lambda index: {
            "reserved_bytes.all.current": HELD[index],
            "reserved_bytes.all.peak": 2 * HELD[index],
        },
    )
    monkeypatch.setattr(memory, "_cuda", lambda: cuda)
    driver = SimpleNamespace(record=Record())
    memory.record(driver)
    assert driver.record.events == [
        {
            "e": "gpu_memory",
            "index": 1,
            "uuid": "GPU-1234-5678",
            "total": 80 * GIB,
            "free": 60 * GIB,
            "reserved": 3 * GIB,
            "reserved_peak": 6 * GIB,
            "allocated_peak": 0,
            "retries": 0,
        }
    ]
    assert opened == [1]

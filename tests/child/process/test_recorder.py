import json
import os

from trainperf.child.process.recorder import Recorder


def read(folder, pid=None):
    path = folder / f"events-{pid or os.getpid()}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_signal_handler_may_record_while_the_same_thread_writes(tmp_path, monkeypatch):
    record = Recorder(str(tmp_path))
    real = os.write

    def interrupted(fd, data):
        monkeypatch.setattr(os, "write", real)
        record.write("handler")
        record.flush()  # as a handler that interrupts this very call would
        return real(fd, data)

    monkeypatch.setattr(os, "write", interrupted)
    record.write("outer")
    record.flush()
    assert [event["e"] for event in read(tmp_path)] == ["outer", "handler"]


def test_what_json_cannot_hold_is_still_recorded(tmp_path):
    class Odd:
        dtype = "x"

        def __int__(self):
            raise TypeError

        def __float__(self):
            return 2.5

    record = Recorder(str(tmp_path))
    record.write("odd", value=Odd(), other={1, 2}, long="x" * 10)
    loop = []
    loop.append(loop)
    record.write("circular", value=loop)
    record.write("surrogate", value="\udcff")
    record.flush()
    odd, note, surrogate = read(tmp_path)
    assert odd["value"] == 2.5
    assert odd["other"] == "{1, 2}"
    assert note["e"] == "note"
    assert surrogate["value"] == "\udcff"


def test_a_descriptor_that_the_program_took_over_is_left_alone(tmp_path):
    record = Recorder(str(tmp_path))
    record.write("one")
    record.flush()
    number = record._fd
    own = os.open(tmp_path / "own.txt", os.O_RDWR | os.O_CREAT)
    os.dup2(own, number)
    record.write("two")
    record.flush()
    record.forked()
    assert (tmp_path / "own.txt").read_bytes() == b""
    assert os.fstat(number)
    assert [event["e"] for event in read(tmp_path)] == ["one", "two"]
    os.close(number)
    os.close(own)


def test_what_is_discarded_leaves_no_file_and_records_nothing_more(tmp_path):
    record = Recorder(str(tmp_path))
    record.write("one")
    record.flush()
    record.write("two")
    record.discard()
    record.write("three")
    record.step("real", 0, 1.0, 2.0, 0.0)
    record.flush()
    assert list(tmp_path.iterdir()) == []

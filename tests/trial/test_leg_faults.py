"""Whether a leg found no memory, told by what it left behind."""

import signal

import pytest

from trainperf.trial.legs.faults import OutOfMemory, why


def ran_out(status, events, folder):
    return isinstance(why(status, events, folder), OutOfMemory)


def error(kind, text):
    return {1: [{"e": "error", "t": 1.0, "type": kind, "text": text}]}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB."),
        ("RuntimeError", "CUDA error: out of memory"),
        ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
        ("DistBackendError", "NCCL error: Cuda failure 2 'out of memory'"),
        ("RuntimeError", "[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        ("ResourceExhaustedError", "{{function_node}} failed to allocate memory [Op:Mul]"),
        ("InternalError", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8 bytes"),
        ("RuntimeError", "DataLoader worker (pid 7) is killed by signal: Killed."),
        ("MemoryError", ""),
    ],
)
def test_memory_runs_out_in_many_words(kind, text, tmp_path):
    assert ran_out(1, error(kind, text), tmp_path)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("ValueError", "the room is full"),
        ("RuntimeError", "CUDA error: an illegal memory access was encountered"),
        ("TypeError", "boom"),
    ],
)
def test_other_errors_are_those_of_the_change(kind, text, tmp_path):
    (tmp_path / "output.log").write_text("out of memory, said the script of something else\n")
    assert not ran_out(1, error(kind, text), tmp_path)


def test_of_an_error_in_a_traced_function_what_went_wrong_is_told(tmp_path):
    text = """in user code:

    File "train.py", line 26, in step  *
        return x + bias

    TypeError: Input 'y' of 'AddV2' Op has type float16 that does not match type float32
"""
    told = "fails: TypeError: Input 'y' of 'AddV2' Op has type float16 that does not match"
    assert str(why(1, error("TypeError", text), tmp_path)).startswith(told)
    assert str(why(1, error("MemoryError", ""), tmp_path)) == "fails: MemoryError"


def test_without_an_error_of_python_the_ending_and_the_output_tell(tmp_path):
    assert not ran_out(-signal.SIGSEGV, {}, tmp_path)
    assert ran_out(-signal.SIGKILL, {}, tmp_path)
    aborted = "terminate called after throwing 'c10::Error': CUDA out of memory\n"
    (tmp_path / "output.log").write_text(aborted)
    assert ran_out(-signal.SIGABRT, {}, tmp_path)
    (tmp_path / "output.log").write_text("Signal 9 (SIGKILL) received by PID 101\n")
    assert ran_out(None, {}, tmp_path)

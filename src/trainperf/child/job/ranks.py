"""The ranks of a job: which one this process is, and how they agree on what comes next.

Ranks that exchange gradients in each step must begin and end every phase at the same
step: a rank that stopped to look at something while the others wait for it in an
all-reduce would measure nothing, or hang them. So rank 0 says at an early step when the
warm-up ends, and at its end what comes, in numbers of steps; the others wait at these steps
for its word, and from there on nobody asks anybody. Rank 0 waits for none there: to get so far,
it needs no step of theirs that they have not made.

Words go through a `Board`, never through the user's process group.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ..process.process import Process

ASK_AGAIN_S = 0.002
MEET_S = 20.0
"""A rank waits so long for the others where it does not matter to them that it waits."""
HERE_S = 5.0
"""By then rank 0 has begun the loop that another rank has made some steps of."""
SAY_S = 120.0
"""So long rank 0 may be held up, as by an evaluation that it alone does."""

_BOARD = "board"


class World:
    """The job this process is a rank of. `size` is at least 2.

    `absent` are ranks that take no part in what is measured: nobody waits for them.
    """

    def __init__(self, rank: int, size: int, board: Board) -> None:
        self.rank = rank
        self.size = size
        self.absent: tuple[int, ...] = ()
        self._board = board
        self._loops = 0

    def begin_loop(self, framework: str) -> str:
        """Say that this rank takes part in the loop that begins now; return the loop's name."""
        self._loops += 1
        self.absent = ()
        name = f"loop-{self._loops}-{framework}"
        self.say(f"{name}-here", True)
        return name

    def missing(self, loop: str) -> tuple[int, ...]:
        """The ranks that do not take part in a loop: they are gone, or not observed."""
        here = self._heard(f"{loop}-here", range(self.size), MEET_S)
        return tuple(rank for rank in range(self.size) if rank not in here)

    def word_of_first(self, loop: str, name: str, make: Callable[[], Any]) -> Any:
        """What rank 0 makes and says under `name` in a loop; raises where it does not in time.

        Where it takes no part in the loop, or has left it, nobody waits for long.
        """
        if self.rank == 0:
            self._board.put(f"{loop}-{name}", json.dumps(make()))
        began = time.monotonic()
        while (found := self._board.get(f"{loop}-{name}")) is None:
            waited = time.monotonic() - began
            absent = waited > HERE_S and self._said(f"{loop}-here", 0) is None
            if absent or waited > SAY_S or self._said(f"{loop}-left", 0) is not None:
                raise RuntimeError("rank 0 did not say how to go on")
            time.sleep(ASK_AGAIN_S)
        return json.loads(found)

    def meet(self, name: str, timeout_s: float = MEET_S) -> bool:
        """Wait until all ranks came to the place `name`; whether all did in time.

        They did not where some are absent, which are not waited for.
        """
        return self.all_say(f"meet-{name}", "here", timeout_s) is not None

    def say(self, name: str, value: Any) -> None:
        """Leave this rank's word under `name`, for those that wait in `all_say`."""
        self._board.put(f"said-{name}-{self.rank}", json.dumps(value))

    def all_say(self, name: str, value: Any, timeout_s: float = MEET_S) -> list[Any] | None:
        """Say `value` under `name` and wait for the words of all ranks, which are returned.

        None where some are absent, which are not waited for, or did not say theirs in time.
        """
        self.say(name, value)
        present = [rank for rank in range(self.size) if rank not in self.absent]
        words = self._heard(name, present, timeout_s)
        if self.absent or len(words) < len(present):
            return None
        return [json.loads(words[rank]) for rank in present]

    def _heard(self, name: str, ranks: Sequence[int], timeout_s: float) -> dict[int, str]:
        """What ranks have said under `name`, once all of them have or the time is over."""
        until, words = time.monotonic() + timeout_s, dict[int, str]()
        while True:
            for rank in ranks:
                if rank not in words and (said := self._said(name, rank)):
                    words[rank] = said
            if len(words) == len(ranks) or time.monotonic() > until:
                return words
            time.sleep(ASK_AGAIN_S)

    def _said(self, name: str, rank: int) -> str | None:
        return self._board.get(f"said-{name}-{rank}")


def find(
    process: Process, before: World | None, told: Callable[[], dict[str, Any] | None]
) -> World | None:
    """The job that this process trains in, None if it trains by itself.

    What is known of the rank is recorded, also where its launcher says that it is one of
    several but nothing ties it to the others. `told` asks the framework for its place;
    `before` is the job as it was known of an earlier loop.
    """
    found = told()
    place = {**_announced(), **(found or {})}
    if not place:
        return None
    torch: Any = sys.modules.get("torch")
    on_gpu = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    process.record.write(
        "rank",
        **place,
        host=socket.gethostname(),
        launcher=next((name for name, own in LAUNCHERS.items() if own in os.environ), ""),
        tied=found is not None,
        cores=sorted(os.sched_getaffinity(0)),
        threads=None if torch is None else int(torch.get_num_threads()),
        device=f"cuda:{torch.cuda.current_device()}" if on_gpu else "",
    )
    if found is None or found["world_size"] < 2:
        return None
    settings = {name: os.environ[name] for name in os.environ if name.startswith(("NCCL_", "FI_"))}
    process.fact("nccl_environment", settings)
    rank, size = int(found["rank"]), int(found["world_size"])
    if before is not None and (before.rank, before.size) == (rank, size):
        return before  # which counts its loops on: what was said of those is not for these
    return World(rank, size, board(process.settings))


LAUNCHERS = {"torchrun": "TORCHELASTIC_RUN_ID", "TF_CONFIG": "TF_CONFIG"}
"""What fixes the port at which ranks meet where the command does not show it, and its variable."""

PLACES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("RANK", "WORLD_SIZE"),
)
"""Where launchers leave rank and size; torchrun, which may itself be started by one of the others,
in the last."""


def _announced() -> dict[str, Any]:
    """This process's place in its job, as the launcher's environment has it."""
    for names in PLACES[-1:] if "TORCHELASTIC_RUN_ID" in os.environ else PLACES:
        values = [os.environ.get(name, "") for name in names]
        rank, size = (int(text) if text.isdigit() else None for text in values)
        if rank is not None and size is not None and size > 1:
            return {"rank": rank, "world_size": size}
    return {}


def silent_text(ranks: Sequence[int]) -> str:
    """Why only real steps are timed: "rank 3 did not …", "ranks 3 and 4 did not …"."""
    *names, last = map(str, ranks)
    who = f"ranks {', '.join(names)} and {last}" if names else f"rank {last}"
    return f"{who} did not answer when the phases were to begin"


# Where the ranks of a job leave words for each other.
#
# A folder that all of them see, or the job's own key-value store where they share no disk.


class FileBoard:
    """Words as files of a folder, each under a key that one rank writes; whole or not there."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.makedirs(folder, exist_ok=True)

    def put(self, key: str, value: str) -> None:
        path = os.path.join(self._folder, key)
        made = f"{path}.{os.getpid()}"
        with open(made, "w", encoding="utf-8") as file:
            file.write(value)
        os.replace(made, path)

    def get(self, key: str) -> str | None:
        try:
            with open(os.path.join(self._folder, key), encoding="utf-8") as file:
                return file.read()
        except OSError:
            return None


class StoreBoard:
    """Words in the store by which the job's processes found each other."""

    def __init__(self, store: Any, start: str = "0") -> None:
        self._store = store
        self._start = start  # the store may outlive ranks that are started again

    def put(self, key: str, value: str) -> None:
        self._store.set(f"trainperf/{self._start}/{key}", value)

    def get(self, key: str) -> str | None:
        name = f"trainperf/{self._start}/{key}"
        if not self._store.check([name]):
            return None
        return bytes(self._store.get(name)).decode()


Board: TypeAlias = FileBoard | StoreBoard
"""Where ranks leave words for each other; `get` gives None where there is none yet."""


def board(settings: dict[str, Any]) -> Board:
    """Where this process finds the words of the others."""
    # ranks that torchrun started again must not read what the first ones said
    again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if settings.get("board") is None:  # all ranks stand under one trainperf
        return FileBoard(os.path.join(settings["folder"], _BOARD, again))
    distributed: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if distributed is not None and distributed.is_initialized():
        return StoreBoard(distributed._get_default_store(), again)
    return FileBoard(settings["board"])

"""A changed file of settings is given to the command in place of the user's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trainperf.model import Run
from trainperf.run.launch import run_to_its_end
from trainperf.run.spawn import OUTPUT


def test_the_command_reads_the_changed_file_by_another_name(tmp_path: Path) -> None:
    own, folder = tmp_path / "own", tmp_path / "run"
    own.mkdir()
    (own / "conf.json").write_text('{"bf16": false}')
    (own / "train.py").write_text(
        "import json, sys\n"
        "for word in sys.argv[1:]:\n"
        "    path = word.rpartition('=')[2]\n"
        "    print(path.endswith('.json') and json.load(open(path)))\n"
    )
    words = ("conf.json", f"--config={own / 'conf.json'}", "else")
    run = Run(
        (sys.executable, "train.py", *words),
        str(own),
        "train.py",
        sources={str(own / "conf.json"): b'{"bf16": true}'},
    )
    ended = run_to_its_end(run, folder, 60.0, lambda: False)
    assert ended.status == 0, ended.tail
    printed = (folder / OUTPUT).read_text().split("\n")[:3]
    assert printed == [str({"bf16": True})] * 2 + ["False"]
    assert json.loads((own / "conf.json").read_text()) == {"bf16": False}

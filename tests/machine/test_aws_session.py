"""Looking up prices and objects by the way asks nobody for anything, and leaves nothing behind."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import psutil
import pytest

from trainperf.machine.aws import session as aws_session

pytest.importorskip("boto3")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the user's profiles, of which one is chosen; no other credentials."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return tmp_path / "config"


ROLE = """
[profile mine]
role_arn = arn:aws:iam::123456789012:role/Trainer
mfa_serial = arn:aws:iam::123456789012:mfa/me
source_profile = base
"""
KEYS = """
[profile base]
aws_access_key_id = testing
aws_secret_access_key = testing
"""


def test_nobody_is_asked_for_an_mfa_code(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("getpass.getpass", lambda *args: asked.append(args) or "000000")
    config.write_text(ROLE + KEYS)

    with pytest.raises(aws_session.MfaNeeded):
        aws_session.session().get_credentials().get_frozen_credentials()

    assert asked == []


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def program(folder: Path, text: str) -> Path:
    path = folder / "credentials.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize("role", [False, True], ids=["alone", "beneath a role"])
def test_a_program_for_credentials_that_hangs_is_ended(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: bool
) -> None:
    pid = tmp_path / "pid"
    hangs = program(tmp_path, f"echo $$ > '{pid}'\nexec sleep 60")
    name = "base" if role else "mine"
    above = ROLE.replace("mfa_serial", "# mfa_serial") if role else ""
    config.write_text(f'{above}\n[profile {name}]\ncredential_process = "{hangs}"\n')
    monkeypatch.setattr(aws_session, "PROCESS_S", 2.0)

    with pytest.raises(Exception, match=r"Expecting value|retrieving credentials"):
        aws_session.session().get_credentials().get_frozen_credentials()
    until = time.monotonic() + 20
    while not pid.exists() or _runs(int(pid.read_text() or "0")):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_program_for_credentials_cannot_ask_at_the_terminal(config: Path, tmp_path: Path) -> None:
    said = tmp_path / "said"
    asks = program(tmp_path, f"cat > '{said}'\necho the-secret-key >&2\nexit 1")
    config.write_text(f'[profile mine]\ncredential_process = "{asks}"\n')

    with pytest.raises(Exception, match="retrieving credentials"):
        aws_session.session().get_credentials()

    assert said.read_text() == ""

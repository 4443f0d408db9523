"""A boto3 session that asks nobody: no code of an MFA device, no program that waits for input.

What trainperf looks up by the way must never make a person answer, nor leave a process behind.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import threading
from typing import Any

PROCESS_S = 5.0
"""Seconds after which a `credential_process` is killed."""


class MfaNeeded(Exception):  # noqa: N818 - an outcome, not an error
    """The profile's role wants the code of an MFA device."""


def session(**given: Any) -> Any:
    """Return `boto3.Session(**given)`, silenced; raises what that raises."""
    import boto3

    made = boto3.Session(**given)
    for provider in made._session.get_component("credential_provider").providers:
        _silenced(provider)
    return made


def _silenced(provider: Any) -> Any:
    """The provider, with what could ask a person replaced; older ones may lack some of it."""
    if hasattr(provider, "_prompter"):
        provider._prompter = _refuse
    if hasattr(provider, "_popen"):
        provider._popen = _bounded
    builder = getattr(provider, "_profile_provider_builder", None)
    if builder is not None and not hasattr(builder, "_trainperf"):
        original = builder.providers  # of the profile that a role's own is taken from
        builder._trainperf = True
        builder.providers = lambda *args, **kwargs: [
            _silenced(one) for one in original(*args, **kwargs)
        ]
    return provider


def _refuse(*_: Any, **__: Any) -> str:
    raise MfaNeeded


def _bounded(*args: Any, **kwargs: Any) -> subprocess.Popen[Any]:
    """Start a program that may not read the terminal, and does not outlive us."""
    libc = ctypes.CDLL(None)
    process: subprocess.Popen[Any] = subprocess.Popen(
        *args,
        **{
            **kwargs,
            "stdin": subprocess.DEVNULL,
            "start_new_session": True,  # nor open the terminal by its name
            "preexec_fn": lambda: libc.prctl(1, signal.SIGKILL),  # PR_SET_PDEATHSIG
        },
    )
    timer = threading.Timer(PROCESS_S, process.kill)
    timer.daemon = True
    timer.start()
    return process

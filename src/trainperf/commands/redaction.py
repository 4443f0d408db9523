"""Secrets in what a report quotes: the words of the command, and what the script printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from trainperf.model import Diagnosis
from trainperf.recording.run import Event, Recording

REDACTED = "[redacted]"

NAMES = re.compile(
    r"(?:^|[-_.])(?:api[-_]?key|access[-_]?key|key|token|secret|passw(?:or)?d|credentials?)$",
    re.IGNORECASE,
)
"""The end of an option's or a variable's name that holds a secret: `--wandb-api-key`."""

SURELY = re.compile(r"(?:secret|passw(?:or)?d|credentials?)$", re.IGNORECASE)
"""Of these every value is one."""

KNOWN = re.compile(
    r"""
    \b(?:A3T|AKIA|ASIA)[0-9A-Z]{12,20}\b          # AWS, an access key's id
    | \bhf_[A-Za-z0-9]{20,}                       # Hugging Face
    | \bgh[pousr]_[A-Za-z0-9]{30,}                # GitHub
    | \bsk-[A-Za-z0-9_-]{16,}                     # OpenAI and others
    | \bxox[abprs]-[A-Za-z0-9-]{10,}              # Slack
    | \bey[A-Za-z0-9_-]{10,}\.ey[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+   # a JSON web token
    """,
    re.VERBOSE,
)
"""Secrets that are known by how they look, wherever they stand."""

USER_INFO = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
"""Name and password in an URL."""

ASSIGNED = re.compile(
    r"""(?P<name>[A-Za-z_][\w.-]*)(?P<between>["']?\s*[=:]\s*["']?)(?P<value>[^\s"',;&]+)"""
)
"""`NAME=value` and `"name": "value"`, as settings are printed."""

SHORTEST = 8
"""A shorter value of such a name is a setting (`--pad-token 0`, `--sort-key len`)."""


def of_diagnosis(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis without secrets in its command and in what the script printed last.

    Nor in the names of changes, which may be variables with their values.
    """
    stack, proofs = diagnosis.stack, diagnosis.proofs
    return replace(
        diagnosis,
        command=words(diagnosis.command),
        output_tail=text(diagnosis.output_tail),
        trials=tuple(replace(one, fix=text(one.fix)) for one in diagnosis.trials),
        stack=stack and replace(stack, fixes=tuple(map(text, stack.fixes))),
        proofs=tuple(replace(one, name=text(one.name), text=text(one.text)) for one in proofs),
        verdict=replace(diagnosis.verdict, text=text(diagnosis.verdict.text)),
    )


def of_recording(recording: Recording) -> Recording:
    """The recording without them."""

    def plain(event: Event) -> Event:
        return {**event, "argv": list(words(event["argv"]))} if "argv" in event else event

    events = {pid: tuple(map(plain, own)) for pid, own in recording.events.items()}
    return replace(
        recording,
        run=replace(recording.run, command=words(recording.run.command)),
        events=events,
        output_tail=text(recording.output_tail),
    )


def words(command: Sequence[str]) -> tuple[str, ...]:
    """The words of a command, secrets replaced: the value of `--api-key`, what looks like one."""
    told, option = [], ""
    for word in command:
        secret = not word.startswith("-") and _is_secret(option, word)
        told.append(REDACTED if secret else text(word))
        option = word if word.startswith("-") and "=" not in word else ""
    return tuple(told)


def text(quoted: str) -> str:
    """A text, secrets replaced."""

    def assigned(found: re.Match[str]) -> str:
        secret = _is_secret(found["name"], found["value"])
        return f"{found['name']}{found['between']}{REDACTED}" if secret else found[0]

    return ASSIGNED.sub(assigned, KNOWN.sub(REDACTED, USER_INFO.sub(REDACTED, quoted)))


def _is_secret(name: str, value: str) -> bool:
    """Whether the value of such a name may be one: of a key, what is no plain word or number."""
    if not NAMES.search(name) or value == REDACTED:
        return False
    if SURELY.search(name):
        return True
    if len(value) < SHORTEST:
        return False
    return bool(re.search(r"\d", value)) and bool(re.search(r"[A-Za-z]", value))

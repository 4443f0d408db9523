"""An S3 client with the script's own credentials, and no more patience than a probe has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainperf.machine.storage.s3_limits import Budget

CONNECT_S = 1.0
READ_S = 1.5


class NoClient(Exception):  # noqa: N818 - an outcome; its text is the reason
    """There is nothing to ask S3 with."""


def client(env: Mapping[str, str], endpoint: str, budget: Budget) -> Any:
    """Return a boto3 client that asks once, and through `budget`.

    Credentials, profile and region are those of `env`, the environment of the script, else
    what boto3 finds by itself; `AWS_ENDPOINT_URL_S3` and `AWS_ENDPOINT_URL` are honoured,
    after the `endpoint` of the script's own client. Raises `NoClient` where there are none:
    nothing is asked anonymously.
    """
    try:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ProfileNotFound

        from trainperf.machine.aws import session as aws_session
    except ImportError:
        raise NoClient("boto3 is not installed") from None
    try:
        session = aws_session.session(
            aws_access_key_id=env.get("AWS_ACCESS_KEY_ID") or None,
            aws_secret_access_key=env.get("AWS_SECRET_ACCESS_KEY") or None,
            aws_session_token=env.get("AWS_SESSION_TOKEN") or None,
            profile_name=env.get("AWS_PROFILE") or None,
        )
        if session.get_credentials() is None:
            raise NoClient("no AWS credentials were found")
        made = session.client(
            "s3",
            region_name=env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or None,
            endpoint_url=_endpoint(env, endpoint),
            config=Config(
                retries={"total_max_attempts": 1, "mode": "standard"},
                connect_timeout=CONNECT_S,
                read_timeout=READ_S,
                max_pool_connections=32,
            ),
        )
    except ImportError:
        raise NoClient("boto3 is not installed") from None
    except ProfileNotFound as error:
        raise NoClient(f"no S3 client: {error}") from None
    except (BotoCoreError, ValueError) as error:
        # Its name alone: what a credential_process wrote to stderr may stand in the text.
        raise NoClient(f"no S3 client: {type(error).__name__}") from None

    def count(request: Any, **more: Any) -> None:
        budget.ask(str(more.get("event_name", "")).rpartition(".")[2])

    made.meta.events.register_first("before-send.s3", count)
    return made


def own_store(env: Mapping[str, str], endpoint: str) -> bool:
    """Whether requests go to a store that is not AWS's: its prices do not hold there."""
    return "amazonaws.com" not in (_endpoint(env, endpoint) or "amazonaws.com")


def _endpoint(env: Mapping[str, str], endpoint: str) -> str | None:
    return endpoint or env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or None

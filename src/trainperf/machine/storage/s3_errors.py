"""Errors of S3, by names that a reader can look up."""

from __future__ import annotations

from typing import Any

BY_STATUS = {
    "301": "PermanentRedirect",
    "400": "BadRequest",
    "403": "AccessDenied",
    "404": "NotFound",
    "500": "InternalError",
    "503": "SlowDown",
}
"""A HEAD has no body to name its error in."""

REASONS = {
    "AccessDenied": "S3 denied access: these credentials may not read there (s3:GetObject)",
    "AllAccessDisabled": "S3 denied access to the bucket",
    "BadRequest": "S3 refused the request: the bucket may be in another region",
    "ConnectionRefused": "S3 could not be reached: the connection was refused or dropped",
    "ExpiredToken": "the credentials have expired",
    "InvalidAccessKeyId": "the credentials are not valid",
    "MfaNeeded": "the profile's role wants an MFA code, and trainperf asks nobody for one",
    "NoSuchBucket": "there is no such bucket",
    "NoSuchKey": "the objects are not there any more",
    "NotFound": "the bucket or its objects are not there",
    "PermanentRedirect": "the bucket is in another region",
    "ProxyConnectionError": "the proxy of the environment could not be reached",
    "SSLError": "no secure connection: is AWS_CA_BUNDLE there, and does it fit?",
    "SignatureDoesNotMatch": "the credentials are not valid",
    "SSOTokenLoadError": "the sign-on of the profile has run out: aws sso login",
    "UnauthorizedSSOTokenError": "the sign-on of the profile has run out: aws sso login",
    "SlowDown": "S3 asked to slow down (503)",
    "Timeout": "S3 did not answer in time",
}

CONNECTION = frozenset(
    {"EndpointConnectionError", "ConnectionClosedError", "ProtocolError", "IncompleteReadError",
     "ResponseStreamingError", "ConnectionError", "ConnectionResetError"}
)  # fmt: skip
TIMEOUTS = frozenset({"ReadTimeoutError", "ConnectTimeoutError", "TimeoutError"})


def name_of(error: BaseException) -> str:
    """The name of an error: S3's own code, or what happened to the connection."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict):
        said = response.get("Error") or {}
        code = str(said.get("Code") or "")
        status = str((response.get("ResponseMetadata") or {}).get("HTTPStatusCode") or "")
        return BY_STATUS.get(code) or code or BY_STATUS.get(status) or f"status {status}"
    kind = type(error).__name__
    if kind in TIMEOUTS:
        return "Timeout"
    return "ConnectionRefused" if kind in CONNECTION else kind


def reason_of(name: str) -> str:
    """Why there was no probe, in words."""
    if name in REASONS:
        return REASONS[name]
    ours = name.endswith(("Error", "Exception", "NotFound")) and name != "InternalError"
    return f"S3 could not be asked: {name}" if ours else f"S3 answered {name}"

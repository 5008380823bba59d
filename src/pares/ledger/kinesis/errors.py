"""What the client's errors mean for a ledger: did it happen, and what can anybody do.

A service that answers with an error of the 4xx sort did not do what it was asked for. No connection: it was not asked. All
else (no answer in time, a connection that ended, an error of the 5xx sort) leaves the outcome unknown.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, cast

from pares.core.errors import LedgerUnavailable
from pares.ledger.kinesis.settings import Settings

GONE: Final = "ResourceNotFoundException"
IN_USE: Final = "ResourceInUseException"
EXPIRED: Final = "ExpiredIteratorException"
INVALID: Final = ("InvalidArgumentException", "ValidationException")
THROTTLED: Final = (
    "ProvisionedThroughputExceededException",
    "LimitExceededException",
    "ThrottlingException",
    "Throttling",
    "RequestLimitExceeded",
    "KMSThrottlingException",
)
_NO_LOGIN: Final = (
    "no credentials were found: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role; "
    "or give options={'profile_name': ...} or config=FILE"
)
_BAD_LOGIN: Final = "the service refuses these credentials: look whether they are right, and have not expired"
_ADVICE: Final = {
    "AccessDeniedException": "the user lacks a right; docs/security.md has the policy that a member needs",
    "AccessDenied": "the user lacks a right; docs/security.md has the policy that a member needs",
    "UnrecognizedClientException": _BAD_LOGIN,
    "InvalidClientTokenId": _BAD_LOGIN,
    "InvalidSignatureException": f"{_BAD_LOGIN}, and whether this host's clock is",
    "SignatureDoesNotMatch": f"{_BAD_LOGIN}, and whether this host's clock is",
    "RequestExpired": "this host's clock is wrong: set it",
    "ExpiredTokenException": "the credentials have expired: get new ones",
    "ExpiredToken": "the credentials have expired: get new ones",
    "MissingAuthenticationTokenException": _NO_LOGIN,
    "SubscriptionRequiredException": "the account may not use Kinesis in this region",
    "KMSAccessDeniedException": "the user may not use the stream's key: grant it kms:GenerateDataKey and kms:Decrypt",
    "KMSDisabledException": "the stream's key is disabled: enable it",
    "KMSNotFoundException": "the stream's key is gone: set another one",
    GONE: "the stream is not there",
}


class Refused(Exception):
    """What was asked for did not happen, and never will."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why

    @property
    def throttled(self) -> bool:
        """The same request may be taken later."""
        return self.code in THROTTLED


class Broken(Exception):
    """No answer. `sent`: the service may have, or get, all of what was asked."""

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.why = why
        self.sent = sent


def meaning(error: Exception, settings: Settings) -> Refused | Broken:
    """What an error of the client says. Errors that are not the client's are raised again."""
    known = import_module("botocore.exceptions")
    said = settings.scrubbed(" ".join(str(error).split()))
    if isinstance(error, known.ClientError):
        answer = cast(Any, error).response
        code = str(answer.get("Error", {}).get("Code", ""))
        status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) or 0)
        if status >= 500 and code not in THROTTLED:
            return Broken(f"the service failed ({said})", sent=True)
        advice = _ADVICE.get(code)
        return Refused(code, f"{advice} ({said})" if advice else f"the service refused ({said})")
    if isinstance(error, (known.NoCredentialsError, known.PartialCredentialsError, known.CredentialRetrievalError)):
        return Refused("NoCredentials", f"{_NO_LOGIN} ({said})")
    if isinstance(error, (known.ProfileNotFound, known.SSOError, known.TokenRetrievalError)):
        return Refused("NoCredentials", f"the profile can't be used ({said}): name another one, or log in to it")
    if isinstance(error, (known.EndpointConnectionError, known.ConnectTimeoutError, known.ProxyConnectionError)):
        return Broken(f"nobody answers there ({said})", sent=False)
    if isinstance(error, known.ReadTimeoutError):
        return Broken("the service does not answer in time", sent=True)
    if isinstance(error, (known.HTTPClientError, known.ConnectionError)):
        return Broken(f"the connection failed ({said})", sent=True)
    if isinstance(error, known.BotoCoreError):
        return Refused("", f"the client refused ({said})")
    raise error


def unavailable(where: str, doing: str, why: str, *, unknown: bool = False) -> LedgerUnavailable:
    outcome = "; whether it happened is unknown" if unknown else ""
    return LedgerUnavailable(f"{where}: could not {doing}{outcome}: {why}", unknown=unknown)

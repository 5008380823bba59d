"""One connection to a Redis server, from its beginning to its end. It never reconnects, and sends nothing twice.

redis-py's own clients repeat what failed, ten times if nothing else is said, and a repeated append is a second one. So only its
`Connection` is used, which speaks the protocol, with TLS and authentication.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pares.core.errors import CapabilityError
from pares.ledger.client_options import MAYBE_NO_TLS, tls_advice
from pares.ledger.redis.errors import NO_SCRIPT, Broken, Refused
from pares.ledger.redis.scripts import Script
from pares.ledger.redis.settings import Settings

OLDEST: Final = (6, 2)
"""The oldest version of the server that will do: XTRIM by id came with it."""
_CODE: Final = "ERR"


class Wire:
    """For one thread at a time, but for `close`."""

    def __init__(self, connection: Any, settings: Settings, server: str, errors: tuple[type[Exception], ...]) -> None:
        self.server = server
        self._connection = connection
        self._settings = settings
        self._errors = errors

    def ask(self, *words: object) -> Any:
        """One command, and its answer. Raises `Refused` and `Broken`."""
        self.send(*words)
        return self.answer()

    def run(self, script: Script, keys: Sequence[str], values: Sequence[object], wait: int = 0) -> tuple[Any, int]:
        """A script's answer; and how many replicas had got it, if it was to wait for `wait` of them."""
        after = [("WAIT", wait, self._patience())] if wait else []
        try:
            self._send_all([("EVALSHA", script.sha, len(keys), *keys, *values), *after])
            return self._answers(len(after))
        except Refused as error:
            if error.code != NO_SCRIPT:
                raise
        # The server has not seen it yet, or not since it was started: it did nothing.
        self._send_all([("EVAL", script.text, len(keys), *keys, *values), *after])
        return self._answers(len(after))

    def _patience(self) -> int:
        """Milliseconds for which the server waits for replicas."""
        return max(1, round(self._settings.timeout * 800))

    def _answers(self, more: int) -> tuple[Any, int]:
        """Of a script, and of the WAIT behind it; both are read, whatever the first one is."""
        refused: Refused | None = None
        answer: Any = None
        try:
            answer = self.answer()
        except Refused as error:
            refused = error
        count = 0
        for _ in range(more):
            try:
                count = int(self.answer())
            except Refused as error:
                if refused is None:
                    raise Broken(f"WAIT: {error.text}") from None
        if refused is not None:
            raise refused
        return answer, count

    def send(self, *words: object) -> None:
        self._send_all([words])

    def _send_all(self, commands: Sequence[Sequence[object]]) -> None:
        try:
            self._connection.send_packed_command(self._connection.pack_commands(commands), check_health=False)
        except self._errors as error:
            raise Broken(self._said(error)) from None

    def answer(self) -> Any:
        """The next answer. Raises `Refused` if it is an error, and `Broken`."""
        from redis.exceptions import ConnectionError as Lost
        from redis.exceptions import ResponseError
        from redis.exceptions import TimeoutError as Late

        try:
            return self._connection.read_response()
        except Late:
            raise Broken(f"{self.server} does not answer in time") from None
        except ResponseError as error:
            raise self._refused(error) from None
        except Lost as error:
            # Some of the server's errors are connection errors to the client: it says so before it hangs up, or goes on.
            if type(error) is not Lost:
                raise self._refused(error) from None
            raise Broken(self._said(error)) from None
        except self._errors as error:
            raise Broken(self._said(error)) from None

    def _refused(self, error: Exception) -> Refused:
        return refusal(error, self._settings)

    def heard(self, seconds: float) -> bool:
        """Whether something comes within so many seconds. Raises `Broken`."""
        try:
            return bool(self._connection.can_read(timeout=seconds))
        except self._errors as error:
            raise Broken(self._said(error), sent=False) from None

    def alive(self) -> bool:
        """Whether the server has not ended it meanwhile, as far as this side has heard: nobody has asked for anything."""
        try:
            return not self.heard(0)
        except Broken:
            return False

    def close(self) -> None:
        """Also while another thread waits for an answer, which then hears that it is over."""
        try:
            self._connection.disconnect()
        except self._errors:
            pass

    def _said(self, error: Exception) -> str:
        return said(error, self._settings)


def said(error: Exception, settings: Settings) -> str:
    return settings.scrubbed(" ".join(str(error).split())) or "the connection is closed"


_CODES: Final[Mapping[str, str]] = {
    "NoScriptError": "NOSCRIPT",
    "NoPermissionError": "NOPERM",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "BusyLoadingError": "LOADING",
    "AuthenticationError": "NOAUTH",
    "AuthenticationWrongNumberOfArgsError": "NOAUTH",
    "ClusterDownError": "CLUSTERDOWN",
    "MasterDownError": "MASTERDOWN",
    "MovedError": "MOVED",
}
"""The client takes the first word off an error that it knows, and says it by a class."""


def refusal(error: Exception, settings: Settings) -> Refused:
    text = said(error, settings)
    code = next((_CODES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _CODES), "")
    first, _, _ = text.partition(" ")
    if not code and first.isupper():
        code = first
    # From within a script the code stands further on, in some versions.
    for known in ("NOPERM", "OOM", "READONLY", "WRONGTYPE", "MISCONF", "NOREPLICAS"):
        code = known if known in text and code in ("", _CODE) else code
    if (
        "can't run this command or subcommand" in text
        or "No permissions to" in text
        or "executing the script can't" in text
    ):
        code = "NOPERM"
    elif "command not allowed when used memory" in text:
        code = "OOM"
    elif "against a read only" in text:
        code = "READONLY"
    elif "against a key holding the wrong kind of value" in text:
        code = "WRONGTYPE"
    elif text.startswith("invalid username-password") or "WRONGPASS" in text:
        code = "WRONGPASS"
    return Refused(code or _CODE, text)


def connect(settings: Settings, server: str, seconds: float, *, sentinel: bool = False) -> Wire:
    """A connection to one server, which has let the user in. Raises `Broken` and `Refused` with what it said."""
    try:
        from redis.backoff import NoBackoff
        from redis.connection import Connection, SSLConnection
        from redis.exceptions import RedisError
        from redis.retry import Retry
    except ImportError as error:
        raise CapabilityError(f"Redis ledgers need redis-py ({error}): pip install 'pares[redis]'") from error

    errors: tuple[type[Exception], ...] = (RedisError, OSError, ValueError, AttributeError)
    kind: Any = SSLConnection if settings.tls else Connection
    connection = kind(
        **settings.told(server, sentinel=sentinel),
        socket_timeout=settings.timeout,
        socket_connect_timeout=max(0.001, seconds),
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )
    try:
        connection.connect()
    except RedisError as error:
        raise _why(error, settings, server) from None
    except (OSError, ValueError) as error:
        raise Broken(advised(said(error, settings), settings, server), sent=False) from None
    return Wire(connection, settings, server, errors)


def _why(error: Exception, settings: Settings, server: str) -> Broken:
    from redis.exceptions import AuthenticationError
    from redis.exceptions import TimeoutError as Late

    text = said(error, settings)
    if isinstance(error, Late):
        return Broken(f"{server} does not answer in time{MAYBE_NO_TLS if settings.tls else ''}", sent=False)
    if isinstance(error, AuthenticationError) or "WRONGPASS" in text or "NOAUTH" in text:
        if settings.authenticates:
            advice = "a password was given: look whether it and the user are right"
        else:
            advice = "it wants a password: put it into REDISCLI_AUTH, or give options={'password': ...} or config=FILE"
        return Broken(f"{text}; {advice}", sent=False)
    if "DB index is out of range" in text:
        return Broken(f"{text}; the server has no database {settings.db}: name another one in the URL", sent=False)
    return Broken(advised(text, settings, server), sent=False)


def advised(text: str, settings: Settings, server: str) -> str:
    """What was said of a connection that ended before its first answer, with what can be done if that is for TLS."""
    if settings.tls:
        return text + tls_advice(text)
    if "x15\\x03" in text:
        return f"{server} speaks TLS there: write rediss://, or name the port that does not"
    if "reset by peer" in text or "closed by server" in text:
        return f"{text}; if it speaks TLS there, write rediss://"
    return text


def pairs(answer: bytes | str) -> Iterator[tuple[str, str]]:
    """What INFO says."""
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield name, value

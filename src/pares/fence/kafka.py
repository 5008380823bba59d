"""A fence of Kafka's own making: a transactional producer whose id is the seat.

Of all producers with one `transactional.id` the brokers let only the one write that said `init_transactions` last; whatever
an earlier one has open is aborted at that moment, and its next word is refused. So a leader that was frozen in the middle of
a transaction finds it gone, and none of its records is seen by who reads with `isolation.level=read_committed`.

What the brokers go by is who came last, not who has the higher token: a process that was frozen *before* it said
`init_transactions` would, when it wakes up, shut out the leader that came after it. So a term passes in this order, and only
then writes anything else:

1. it reads the highest token of its seat (see `kafka_tokens`): a higher one, and it is refused, before it harms anybody;
2. it looks at its own belief: a term that is over goes no further;
3. `init_transactions`: from here on nobody who came before can commit (while the brokers put it off, because a transaction
   is open, it does 1 and 2 again and again: the client would repeat the request, and shut out the successor each time);
4. it commits its token to the fence's topic, and reads that topic back up to there: a higher one, and it is refused.

*Why no lower token commits after a higher one.* Let a transaction of token t commit, and let one of a higher token t' have
committed before it. The writer that carries t' had said `init_transactions` before the one of t did: else the broker would have
refused t. It had committed its token before it wrote anything else, so that token stood in the fence's topic before t's own
did, in the order of one partition, and the reader of step 4 came upon it. So t was refused in step 4 and never began a
transaction: a contradiction. Step 4 reads as far as its own acknowledged record, so a broker that no longer leads the
partition, and doesn't know, can't hide anything.

A writer never goes on after an error: the client could then have given itself a new epoch, without a look at tokens. The
next transaction begins with step 1.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pares.core.errors import ConfigError, LeadershipLost, LedgerUnavailable, ParesError, Stale
from pares.fence.base import Held, check_held
from pares.fence.kafka_tokens import Tokens
from pares.fence.kafka_writer import Fenced, Writer
from pares.ledger.address import Options
from pares.ledger.handle_state import Lifetime, keep_after_fork
from pares.ledger.kafka.settings import take
from pares.ledger.registry import parse, scheme_of

if TYPE_CHECKING:
    from confluent_kafka import Message, TopicPartition

_SHORTEST: Final = 1.0
_TRIES: Final = 3
"""How often a term that still holds its seat passes anew when somebody came after it without a higher token."""
PREFIX: Final = "pares.fence/"
"""Every transactional id begins with it, so that one ACL can grant them all."""


class Transaction:
    """What one transaction writes. Use it inside its `with`, from one thread."""

    def __init__(self, writer: Writer, judged: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        self._writer: Writer | None = writer
        self._judged = judged

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        *,
        partition: int = -1,
        headers: Mapping[str, bytes | str] | Sequence[tuple[str, bytes | str | None]] | None = None,
        timestamp: int = 0,
        on_delivery: Callable[[Any, Message], None] | None = None,
    ) -> None:
        """Adds a record; returns before it is sent, and waits only while the client's queue is full.

        `partition`: -1 lets the client choose by the key; `timestamp`: milliseconds, 0 for now. `on_delivery` runs before the
        transaction ends, on this thread. Raises `Stale` or `LedgerUnavailable` if the transaction is known to be lost.
        """
        options: dict[str, Any] = {"partition": partition, "timestamp": timestamp}
        if headers is not None:
            options["headers"] = headers
        writer = self._open()
        with self._judged():
            writer.produce(topic, value, key, on_delivery, options)

    def flush(self) -> None:
        """Returns once the brokers have all that was written so far; its `on_delivery` has run by then. The transaction stays
        open. Raises as `transaction` does at its end."""
        writer = self._open()
        with self._judged():
            writer.flush()

    def send_offsets(self, positions: Sequence[TopicPartition], group_metadata: object) -> None:
        """Commits a consumer's positions with the transaction (`Consumer.position`, `Consumer.consumer_group_metadata`), so
        that what was read, and what was made of it, count together or not at all."""
        writer = self._open()
        with self._judged():
            writer.send_offsets(positions, group_metadata)

    def _open(self) -> Writer:
        if self._writer is None:
            raise ConfigError("this transaction is over: write inside the `with` that began it, or begin another")
        if self._writer.lost is not None:
            raise self._writer.lost
        return self._writer

    def _end(self) -> None:
        self._writer = None


class _Place:
    """One seat: its writer, and whose turn it is."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.owner = 0
        self.writer: Writer | None = None


class KafkaFence:
    """Transactions of a term, which the brokers refuse once a later term has passed.

        fence = KafkaFence("kafka://localhost:9092/pares-fence", group="pricing")
        for term in me.terms("AAPL"):
            while term:
                with fence.transaction(term) as out:
                    out.produce("prices", quote(), key="AAPL")

    The `with` commits at its end, and aborts if its body raises. The first transaction of a term passes the fence before it
    (about a tenth of a second; half a second or a whole one more if a transaction of its predecessor is open or has only just
    ended, because the client asks the brokers again no sooner); `check` does just that, for a new leader that wants its
    predecessor shut out at once.

    Promised: if a transaction commits, then none that committed before it, through a fence on the same cluster, topic and
    `group`, carried a higher token for that seat. After a term has passed, nothing of an earlier term is ever committed, not
    even a transaction that was begun before; and what a refused or aborted transaction wrote is never seen by a consumer with
    `isolation.level=read_committed`. It holds as long as acknowledged records stay (three replicas, as the fence's topic is
    made with where there are three brokers) and nobody deletes the fence's topic, or uses the ids that begin with
    `pares.fence/` by other means.

    Not promised: anything to consumers that read uncommitted records (the default of librdkafka's consumer is read_committed,
    of Java's it is not). That a term that is over is refused before a later one has passed. That the right leader is never
    disturbed: a process that was frozen between its look at the tokens and its `init_transactions` aborts one transaction of
    its successor when it wakes up (another one if it stands still again right after); the successor is told
    (`LedgerUnavailable`), and its next transaction goes through, while the late one is refused and tries no more. The same
    goes for two processes that write for the same term: the one that passed last shuts out the other; there is no second
    writer of a term.

    Errors of `transaction`, at its begin, in its body or at its end: `Stale(token, seen)`, another term has passed: nothing of
    this one will be committed any more. `LeadershipLost`, the term is over by its own clock, and has no writer that passed.
    `LedgerUnavailable`: with `unknown` the commit was sent and not confirmed, so it may have happened (it has happened or not
    by the time the next transaction of the seat begins); without, it surely did not: do it again. (A commit whose answer was
    lost before a later term passed ends in `Stale`, though it has happened before that; the message says if that can be.)

    `url`: brokers, and a topic for the fence alone, which is made when it is missing (compacted, one partition, one record a
    seat). `group` keeps groups that use one topic apart. `transaction_timeout`: seconds that a transaction may take before the
    brokers abort it, from 1 to the brokers' `transaction.max.timeout.ms`; also how long, and some ten seconds more, the
    last transaction of a leader that died holds read_committed consumers back if nobody succeeds it. `options` are those of a
    `kafka://` ledger: `timeout`, `replication`, `config`, `options`. The user needs the rights to write and describe
    transactional ids with the prefix `pares.fence/`, and to read, write and describe the topic.

    Threads may share it; transactions of one seat take turns. Not for forked children: `ForkedError`.
    """

    def __init__(
        self, url: str, group: str | None = None, *, transaction_timeout: float = 10.0, **options: object
    ) -> None:
        address = parse(url)
        if not scheme_of(url).kafka_client:
            raise ConfigError(f"{url} is no Kafka: a KafkaFence needs kafka://HOST:PORT[,HOST:PORT...]/TOPIC")
        if not _SHORTEST <= transaction_timeout <= 2**31 / 1000:
            raise ConfigError(f"transaction_timeout={transaction_timeout} can't be: give seconds from {_SHORTEST:g} on")
        settings = take(address, Options(url, {**address.query, **options}))
        if settings.partitions not in (None, 1):
            raise ConfigError(f"{url}: partitions={settings.partitions}: a fence keeps its tokens in one partition")
        self.url: Final = settings.url
        self.group: Final = group
        self._settings = settings
        self._timeout_ms = round(transaction_timeout * 1000)
        self._lifetime = Lifetime(settings.url)
        self._tokens = Tokens(settings)
        self._places: dict[tuple[str, int], _Place] = {}
        self._lock = threading.Lock()
        keep_after_fork(self)
        try:
            self._tokens.connect()
        except BaseException:
            self.close()
            raise

    def transactional_id(self, role: str, seat: int = 0) -> str:
        """The seat's `transactional.id`, for ACLs and the tools of Kafka."""
        group = "" if self.group is None else quote(self.group, safe="")  # no group has an empty name
        return f"{PREFIX}{group}/{quote(role, safe='')}/{seat}"

    @contextlib.contextmanager
    def transaction(self, term: Held) -> Iterator[Transaction]:
        """A transaction in the name of `term`: committed at the end of the `with`, aborted if its body raises.

        A term that is over by its own clock may still end its work with a writer that has passed: in a barrier, say. What it
        can't is pass anew. Errors: see the class.
        """
        role, seat, _ = check_held(term)
        with self._turn(role, seat) as place:
            writer = self._passed(place, term)
            judged = partial(self._judged, place, writer, role, seat)
            with judged():
                writer.begin()
            writing = Transaction(writer, judged)
            try:
                yield writing
            except BaseException:
                if place.writer is writer and not writer.abort():
                    self._drop(place)
                raise
            finally:
                writing._end()  # pyright: ignore[reportPrivateUsage]
            if writer.lost is not None:  # and the body went on
                raise writer.lost
            with judged():
                writer.commit()

    def check(self, term: Held) -> None:
        """Passes the fence: from here on no lower token of the seat commits. Raises as `transaction` does at its begin."""
        role, seat, token = check_held(term)
        with self._turn(role, seat) as place:
            if place.writer is not None and place.writer.token == token:
                seen = self._tokens.find(self.group, role, seat).highest
                if seen is not None and seen > token:
                    self._drop(place)
                    raise Stale(token, seen)
            self._passed(place, term)

    def seen(self, role: str, seat: int = 0) -> int | None:
        """The highest token that has come to the fence for this seat, None if none has. A look, not a check."""
        self._lifetime.check()
        return self._tokens.find(self.group, role, seat).highest

    def close(self) -> None:
        """Ends all writers, once the transactions that are open in other threads have ended. May be called more than once."""
        with self._lock:
            places = [*self._places.values()]
        if any(place.owner == threading.get_ident() for place in places):
            raise ConfigError(f"{self.url}: a transaction is open in this thread: end it before you close the fence")
        if not self._lifetime.end():
            return
        for place in places:
            with place.turn:
                self._drop(place)
        self._tokens.close()

    def __enter__(self) -> KafkaFence:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Passing ---------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _turn(self, role: str, seat: int) -> Iterator[_Place]:
        self._lifetime.check()
        with self._lock:
            place = self._places.setdefault((role, seat), _Place())
        me = threading.get_ident()
        if place.owner == me:
            raise ConfigError(f"a transaction of {role!r}/{seat} is open in this thread: end it before the next one")
        with place.turn:
            self._lifetime.check()
            place.owner = me
            try:
                yield place
            finally:
                place.owner = 0

    def _passed(self, place: _Place, term: Held) -> Writer:
        """The seat's writer, which has passed with the term's token."""
        role, seat, token = check_held(term)
        if place.writer is not None:
            if place.writer.token == token:
                return place.writer
            if place.writer.token > token:
                raise Stale(token, place.writer.token)
            self._drop(place)
        for _ in range(_TRIES):
            found = self._tokens.find(self.group, role, seat, token)
            if found.highest is not None and found.highest > token:
                raise Stale(token, found.highest)
            try:
                if self._pass(place, term, found.below):
                    assert place.writer is not None
                    return place.writer
            except BaseException:
                self._drop(place)
                raise
            # Somebody came after it. With a higher token: the next look finds it.
            self._drop(place)
        raise self._disturbed(role, seat, token, "")

    def _pass(self, place: _Place, term: Held, below: int | None) -> bool:
        """A new writer passes. False: another one came after it before it had."""
        role, seat, token = check_held(term)
        id = self.transactional_id(role, seat)
        place.writer = writer = Writer(self._settings, self._tokens.where, id, token, self._timeout_ms)

        def believe() -> None:
            if not term:
                raise LeadershipLost(
                    f"the term of {role!r}/{seat} with token {token} is over: drop its work; it can't pass the fence any more"
                )

        def look() -> None:
            seen = self._tokens.find(self.group, role, seat).highest
            if seen is not None and seen > token:
                raise Stale(token, seen)
            believe()

        believe()  # As late as can be: what happens between this look and the next line may harm the successor.
        try:
            writer.init(look)
            at = writer.put_down(self.group, role, seat, below=below)
        except Fenced:
            return False
        seen = self._tokens.find(self.group, role, seat, upto=at + 1).highest
        if seen is not None and seen > token:
            raise Stale(token, seen)
        return True

    @contextlib.contextmanager
    def _judged(self, place: _Place, writer: Writer, role: str, seat: int) -> Iterator[None]:
        """What the brokers refused, as what it means for the term. A writer with an error is dropped."""
        try:
            yield
        except Exception as error:
            if not writer.broken:
                raise
            self._drop(place)
            if not isinstance(error, ParesError):
                raise
            writer.lost = self._meaning(error, role, seat, writer.token) if isinstance(error, Fenced) else error
            raise writer.lost from None

    def _meaning(self, fenced: Fenced, role: str, seat: int, token: int) -> ParesError:
        doubt = (
            "" if fenced.certain else "; if its commit got through before that, and only the answer was lost, it stands"
        )
        seen = None
        with contextlib.suppress(LedgerUnavailable):
            seen = self._tokens.find(self.group, role, seat).highest
        if seen is None or seen <= token:
            return self._disturbed(role, seat, token, doubt)
        return Stale(
            token,
            seen,
            f"stale token {token}: {seen} has passed the fence for {role!r}/{seat}, and the brokers refused this "
            f"transaction{doubt}; another member leads now, so drop the work of this term",
        )

    def _disturbed(self, role: str, seat: int, token: int, doubt: str) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"{self._tokens.where}: the brokers ended the transaction of {role!r}/{seat} (token {token}), though no higher "
            f"token is known{doubt}: a process of an earlier term came late, another one writes for this term too, or it "
            f"took longer than transaction_timeout={self._timeout_ms / 1000:g} s; if the term still holds, do it again",
            unknown=bool(doubt),
        )

    def _drop(self, place: _Place) -> None:
        writer, place.writer = place.writer, None
        if writer is not None:
            writer.close()

"""The ledger checker on doctored histories: it must notice each, or its silence means nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from subscriptions.topic_names import TopicNames
from tests.faults.ledger import (
    Check,
    DeadLetter,
    Delivered,
    Envelope,
    Expected,
    Form,
    History,
    Place,
    SendState,
    Sent,
    Stored,
    Wanted,
    check,
    hash_of,
)

PREFIX = "p"
INPUT = "p.messages"
MESSAGES = [b"<a/>", b"<a>1</a>", b"<b/>", b"<broken", b"<a>2</a>", b"<a>3</a>"]
BROKEN = 3
UNMATCHED = 2
SHARED = 5
"""So many topics that the two subscribers have different ones."""
TENANT = ("tenant", b"t")
SENT_IN = Envelope(b"k", (("xb-id", b"forged"), TENANT, ("Content-Type", b"text/plain")))
RECEIVED_IN = Envelope(b"k", (TENANT,))


def place(number: int) -> Place:
    """Messages alternate between two partitions."""
    return Place(INPUT, number % 2, number // 2)


def delivered(number: int, subscription: str, version: int) -> Delivered:
    return Delivered(
        topic=f"{PREFIX}.out.{subscription.partition('/')[0]}",
        id=f"{number}-{subscription}-{version}",
        subscription=subscription,
        version=version,
        source=place(number),
        value=MESSAGES[number] if subscription != "b/made" else b"<x k='1'/>",
        envelope=RECEIVED_IN,
    )


def honest() -> History:
    """Two subscribers, three subscriptions, one message that nobody wants, one that is none."""
    subscriptions = {("a/all", 0): None, ("b/all", 1): None, ("b/made", 2): None}
    expected = {}
    records = []
    for number, message in enumerate(MESSAGES):
        if number == BROKEN:
            expected[place(number)] = Expected(2, refusals={None: frozenset({"not-well-formed"})})
            continue
        results = {}
        if number != UNMATCHED:
            for name, version in subscriptions:
                made = name == "b/made"
                results[name, version] = (
                    Wanted(b'<x k="1"></x>', Form.XML) if made else Wanted(message)
                )
                records.append(delivered(number, name, version))
        expected[place(number)] = Expected(2, results)
    ids = {number: f"m{number}" for number in range(len(MESSAGES))}
    return History(
        prefix=PREFIX,
        shared_topics=0,
        sent=[
            Sent(ids[number], hash_of(message), SendState.OK, place(number), seen_version=2)
            for number, message in enumerate(MESSAGES)
        ],
        stored={
            place(number): Stored(ids[number], hash_of(message), envelope=SENT_IN)
            for number, message in enumerate(MESSAGES)
        },
        expected=expected,
        delivered=records,
        dead_letters=[DeadLetter(place(BROKEN), "not-well-formed", None, MESSAGES[BROKEN])],
    )


def test_an_honest_history() -> None:
    report = check(honest())
    assert report.faults == ()
    assert (report.matched, report.unmatched, report.dead, report.deliveries) == (4, 1, 1, 12)


Doctor = Callable[[History], History]


def without(number: int) -> Doctor:
    def doctor(history: History) -> History:
        kept = [*history.delivered[:number], *history.delivered[number + 1 :]]
        return replace(history, delivered=kept)

    return doctor


def with_more(*records: Delivered) -> Doctor:
    return lambda history: replace(history, delivered=[*history.delivered, *records])


def changed(number: int, **fields: object) -> Doctor:
    def doctor(history: History) -> History:
        records = list(history.delivered)
        records[number] = replace(records[number], **fields)  # type: ignore[arg-type]
        return replace(history, delivered=records)

    return doctor


def swapped(history: History) -> History:
    """Two messages of one partition change places in one subscriber's topic."""
    records = list(history.delivered)
    first, second = (
        records.index(delivered(number, "a/all", 0)) for number in (0, 4)
    )  # the places 0/0 and 0/2
    records[first], records[second] = records[second], records[first]
    return replace(history, delivered=records)


def without_dead_letter(history: History) -> History:
    return replace(history, dead_letters=[])


def with_other_dead_letter(**fields: object) -> Doctor:
    def doctor(history: History) -> History:
        letter = replace(history.dead_letters[0], **fields)  # type: ignore[arg-type]
        return replace(history, dead_letters=[letter])

    return doctor


def send_lost(history: History) -> History:
    """Kafka has acknowledged a message that it does not have."""
    gone = place(UNMATCHED)
    return replace(
        history,
        stored={each: stored for each, stored in history.stored.items() if each != gone},
        expected={each: what for each, what in history.expected.items() if each != gone},
    )


def never_read(history: History) -> History:
    gone = place(UNMATCHED)
    kept = {each: what for each, what in history.expected.items() if each != gone}
    return replace(history, expected=kept)


def send_state(state: SendState) -> Doctor:
    def doctor(history: History) -> History:
        sent = [replace(history.sent[0], state=state, place=None), *history.sent[1:]]
        return replace(history, sent=sent)

    return doctor


DOCTORED: dict[str, tuple[Doctor, set[Check]]] = {
    "one lost": (without(0), {Check.LOST}),
    "all of a message lost": (
        lambda history: replace(
            history, delivered=[each for each in history.delivered if each.source != place(1)]
        ),
        {Check.LOST, Check.SUM},
    ),
    "one doubled": (with_more(delivered(0, "a/all", 0)), {Check.BYTES}),
    "one doubled with other bytes": (
        with_more(replace(delivered(0, "a/all", 0), value=b"<A/>")),
        {Check.BYTES, Check.UNEXPECTED},
    ),
    "one doubled with other bytes that mean the same": (
        with_more(replace(delivered(0, "b/made", 2), value=b"<x  k='1'/>")),
        {Check.BYTES},
    ),
    "one doubled with another id": (
        with_more(replace(delivered(5, "a/all", 0), id="other")),
        {Check.BYTES},
    ),
    "one id for two": (
        changed(1, id=delivered(0, "a/all", 0).id),
        {Check.BYTES},
    ),
    "two swapped": (swapped, {Check.ORDER}),
    "one foreign": (changed(0, topic=f"{PREFIX}.out.b"), {Check.OWNER}),
    "one in two topics": (
        with_more(replace(delivered(5, "a/all", 0), topic=f"{PREFIX}.out.b")),
        {Check.OWNER, Check.BYTES},
    ),
    "one changed byte": (changed(0, value=b"<a />"), {Check.UNEXPECTED}),
    "no value": (changed(0, value=None), {Check.UNEXPECTED}),
    "another key": (changed(0, envelope=Envelope(None, (TENANT,))), {Check.UNEXPECTED}),
    "no headers": (changed(0, envelope=Envelope(b"k")), {Check.UNEXPECTED}),
    "a header twice": (changed(0, envelope=Envelope(b"k", (TENANT, TENANT))), {Check.UNEXPECTED}),
    "all that it was sent in": (changed(0, envelope=SENT_IN), {Check.UNEXPECTED}),
    "another type": (changed(0, content_type="application/json"), {Check.UNEXPECTED}),
    "another version": (changed(0, version=1), {Check.UNEXPECTED, Check.LOST}),
    "a message nobody wants": (
        with_more(delivered(UNMATCHED, "a/all", 0)),
        {Check.UNEXPECTED, Check.SUM, Check.ORDER},
    ),
    "a message nobody sent": (
        with_more(replace(delivered(5, "a/all", 0), source=Place(INPUT, 1, 9), id="z")),
        {Check.UNEXPECTED, Check.SUM},
    ),
    "a result of a dead letter": (
        with_more(delivered(BROKEN, "a/all", 0)),
        {Check.UNEXPECTED, Check.SUM, Check.ORDER},
    ),
    "no dead letter": (without_dead_letter, {Check.LOST, Check.SUM}),
    "a dead letter with another code": (
        with_other_dead_letter(code="too-deep"),
        {Check.UNEXPECTED},
    ),
    "a dead letter with other bytes": (
        with_other_dead_letter(value=b"<broken>"),
        {Check.UNEXPECTED},
    ),
    "a small dead letter without its message": (
        with_other_dead_letter(value=None, omitted_bytes=len(MESSAGES[BROKEN])),
        {Check.UNEXPECTED},
    ),
    "a dead letter for one": (
        with_other_dead_letter(subscription="a/all"),
        {Check.UNEXPECTED, Check.LOST},
    ),
    "an acknowledged message lost": (send_lost, {Check.LOST}),
    "a message in no batch": (never_read, {Check.LOST, Check.SUM}),
    "a refused send that is there": (send_state(SendState.FAIL), {Check.UNEXPECTED}),
    "lag": (lambda history: replace(history, lag=1), {Check.LAG}),
    "an old version": (
        lambda history: replace(
            history, sent=[replace(history.sent[0], seen_version=3), *history.sent[1:]]
        ),
        {Check.VERSION},
    ),
}


@pytest.mark.parametrize(("doctor", "found"), DOCTORED.values(), ids=DOCTORED)
def test_doctored_histories_are_noticed(doctor: Doctor, found: set[Check]) -> None:
    assert check(doctor(honest())).checks() == found


def test_an_unknown_send_that_is_there_is_no_phantom() -> None:
    assert check(send_state(SendState.UNKNOWN)(honest())).faults == ()


def test_an_unknown_send_that_is_not_there_is_not_lost() -> None:
    history = honest()
    unknown = Sent("m9", hash_of(b"<a/>"), SendState.UNKNOWN)
    assert check(replace(history, sent=[*history.sent, unknown])).faults == ()


def test_an_unknown_send_that_is_there_must_be_delivered() -> None:
    assert check(without(0)(send_state(SendState.UNKNOWN)(honest()))).checks() == {Check.LOST}


def test_duplicates_are_counted_and_bounded() -> None:
    doubled = with_more(delivered(0, "a/all", 0), delivered(1, "a/all", 0))(honest())
    report = check(doubled, most_duplicates=2)
    assert report.faults == ()
    assert report.raw_duplicates == 2
    assert report.duplicates == {place(0): 1, place(1): 1}
    assert check(doubled, most_duplicates=1).checks() == {Check.BYTES}


def test_who_lost_a_topic_may_lack_records_but_gets_no_others() -> None:
    history = replace(honest(), may_lack=frozenset({"a"}))
    assert check(without(0)(history)).faults == ()
    assert check(changed(0, value=b"<a />")(history)).checks() == {Check.UNEXPECTED}
    assert check(without(1)(history)).checks() == {Check.LOST}


def shared() -> History:
    """The same with topics that subscribers share."""
    names, history = TopicNames(PREFIX, shared=SHARED), honest()
    records = [
        replace(
            each,
            topic=names.output(subscriber),
            envelope=each.envelope._replace(key=subscriber.encode()),
        )
        for each in history.delivered
        for subscriber in [each.subscription.partition("/")[0]]
    ]
    return replace(history, shared_topics=SHARED, delivered=records)


def test_topics_that_subscribers_share() -> None:
    history = shared()
    assert check(history).faults == ()
    other = next(
        each.topic for each in history.delivered if each.topic != history.delivered[0].topic
    )
    assert check(changed(0, topic=other)(history)).checks() == {Check.OWNER}
    assert check(changed(0, envelope=RECEIVED_IN)(history)).checks() == {Check.UNEXPECTED}


def test_a_place_and_its_text() -> None:
    assert Place.parse("a.b/0/12") == Place("a.b", 0, 12)
    assert str(Place("a.b", 0, 12)) == "a.b/0/12"

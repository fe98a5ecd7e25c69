"""Messages as three publishers might send them, made from a seed; and some that are no good."""

import random
from collections.abc import Iterator

_COUNTRIES = ("PT", "DE", "FR", "NL", "ES")
_ARTICLES = ("Cable drum", "Winch", "Anchor", "Radio", "Rope, 40 m", "Flare & case")
_PLACES = ("Porto", "Bergen", "Trieste", "Cádiz", "Vigo")
_ORGANISATIONS = ("Coast Guard", "Port Authority", "Coastal Trust", "Weather Office")
_HEADLINES = ("Storm warning", "Wind map", "Harbour reopened", "Prices rise", "New pier")

BAD = (
    b"<order><line></order>",
    b"",
    b"not XML at all",
    b'<!DOCTYPE a [<!ENTITY b "boom">]><a>&b;</a>',
    b"<a>" * 400 + b"</a>" * 400,
    b"<a>\xff\xfe</a>",
)
"""Not well-formed, empty, no XML, with entities of its own, too deep, not UTF-8."""


def messages(count: int, seed: int) -> Iterator[bytes]:
    """So many messages, each different, bad ones among them."""
    rng = random.Random(seed)
    bad = set(rng.sample(range(count), min(len(BAD), count)))
    spoilt = iter(BAD)
    for number in range(count):
        if number in bad:
            yield next(spoilt)
        else:
            yield rng.choice((_order, _news, _trades))(rng, number).encode()


def _order(rng: random.Random, number: int) -> str:
    lines = "".join(
        f'<x:line pos="{pos}"><x:article>{rng.choice(_ARTICLES).replace("&", "&amp;")}</x:article>'
        f"<x:quantity>{rng.randint(1, 9)}</x:quantity>"
        f"<x:price>{rng.randint(5, 400)}.{rng.randint(0, 99):02}</x:price></x:line>"
        for pos in range(1, rng.randint(2, 6))
    )
    terms = (
        f'<t:terms xmlns:t="urn:example:payment" t:days="{rng.choice((14, 30))}">net</t:terms>'
        if rng.random() < 0.4
        else ""
    )
    return (
        f'<x:order xmlns:x="urn:example:orders" number="{number}"><x:customer><x:name>C{number}'
        f"</x:name><x:country>{rng.choice(_COUNTRIES)}</x:country></x:customer>{lines}{terms}"
        "</x:order>"
    )


def _news(rng: random.Random, number: int) -> str:
    stories = "".join(
        f'<story id="{number}-{each}" urgency="{rng.randint(1, 8)}" '
        f'lang="{rng.choice(("de", "en", "pt"))}"><headline>{rng.choice(_HEADLINES)}</headline>'
        f"{_section(rng, 1)}{_section(rng, 1)}</story>"
        for each in range(rng.randint(1, 3))
    )
    return f'<news edition="{number}"><head><source>wire</source></head>{stories}</news>'


def _section(rng: random.Random, depth: int) -> str:
    content = f"<headline>{rng.choice(_HEADLINES)}</headline>"
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(("p", "p", "figure", "section"))
        if kind == "section" and depth < 3:
            content += _section(rng, depth + 1)
        elif kind == "figure":
            content += (
                f"<figure><headline>Map</headline><credit>D{rng.randint(1, 9)}</credit></figure>"
            )
        else:
            content += (
                f"<p>Near <place>{rng.choice(_PLACES)}</place>, the "
                f"<org>{rng.choice(_ORGANISATIONS)}</org> says so.</p>"
            )
    return f"<section>{content}</section>"


def _trades(rng: random.Random, number: int) -> str:
    trades = "".join(
        f'<trade id="{number}-{each}" currency="{rng.choice(("EUR", "EUR", "USD", "GBP"))}">'
        f"<amount>{rng.randint(100, 12_000)}</amount>"
        f"<partner>P{rng.randint(1, 20)}</partner></trade>"
        for each in range(rng.randint(1, 5))
    )
    return f"<trades>{trades}</trades>"

"""Book- and Bib-shaped messages and FLWR queries (after BROKER 6), generated.

Books are recursive: sections in sections. Bibs are flat. `values` is how many different values text
and attributes take: with more of them, fewer queries match a message.
"""

import random

BOOK_DTD = """
<!ELEMENT book (title, author+, section+)>
<!ELEMENT section (title, summary?, (p | figure | section)*)>
<!ELEMENT figure (title, image)>
<!ELEMENT title (#PCDATA)> <!ELEMENT author (#PCDATA)> <!ELEMENT p (#PCDATA)>
<!ELEMENT summary (#PCDATA)>
<!ELEMENT image EMPTY>
<!ATTLIST section id CDATA #IMPLIED difficulty CDATA #IMPLIED>
<!ATTLIST figure width CDATA #IMPLIED height CDATA #IMPLIED>
<!ATTLIST image source CDATA #IMPLIED>
"""

_BINDINGS = (
    "/book/section",
    "//section",
    "//section/section",
    "//section//figure",
    "//figure",
    "/book//figure",
    "/book",
    "//section/figure",
)
_OF_SECTION = ("title", "p", "figure/title", "//figure/title", "section/title", "//p", "@id")
_OF_FIGURE = ("title", "@width", "image/@source", "@height")
_OF_BOOK = ("title", "author", "section/title", "//figure/title", "//section/title", "//p")
_RETURNED_OF_SECTION = ("title", "//figure", "figure", "p", "//title", "section/title", "@id")
_RETURNED_OF_FIGURE = ("title", "image", "@width", "image/@source")
_RETURNED_OF_BOOK = ("title", "author", "//figure/title", "section/title", "//section//title")


_WORDS = "the ferry leaves at dawn when wind and tide allow and nobody waits for those who are late"


def book_messages(
    count: int, values: int, elements: int = 100, seed: int = 10, *, prose: int = 0
) -> list[bytes]:
    """Recursive messages of about so many elements, each different.

    Sections have a summary of so many words, which no query asks for; none if that is 0.
    """
    rng = random.Random(seed)
    return [_Book(rng, values, elements, prose).make() for _ in range(count)]


def feed_messages(count: int, values: int, seed: int) -> list[bytes]:
    """Messages as the broker gets them: about 100 elements, and 3.4 kB with their prose."""
    return book_messages(count, values, elements=85, seed=seed, prose=16)


class _Book:
    def __init__(self, rng: random.Random, values: int, elements: int, prose: int) -> None:
        self.rng = rng
        self.values = values
        self.left = elements
        self.prose = prose

    def make(self) -> bytes:
        authors = "".join(self.text("author") for _ in range(self.rng.randint(1, 3)))
        sections = ""
        while self.left > 0:
            sections += self.section(1)
        return f"<book>{self.text('title')}{authors}{sections}</book>".encode()

    def text(self, name: str) -> str:
        self.left -= 1
        return f"<{name}>v{self.rng.randrange(self.values)}</{name}>"

    def section(self, depth: int) -> str:
        self.left -= 1
        content = self.text("title")
        if self.prose:
            self.left -= 1
            words = " ".join(self.rng.choices(_WORDS.split(), k=self.prose))
            content += f"<summary>{words}</summary>"
        for _ in range(self.rng.randint(1, 4)):
            kind = self.rng.choice(("p", "p", "figure", "section"))
            if kind == "section" and depth < 4:
                content += self.section(depth + 1)
            elif kind == "figure":
                content += self.figure()
            else:
                content += self.text("p")
        return f'<section id="v{self.rng.randrange(self.values)}">{content}</section>'

    def figure(self) -> str:
        self.left -= 2
        number = self.rng.randrange
        return (
            f'<figure width="v{number(self.values)}" height="v{number(self.values)}">'
            f'{self.text("title")}<image source="v{number(self.values)}"/></figure>'
        )


def _paths_of(binding: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the elements of a binding path are asked for, and what is returned of them."""
    if binding.endswith("figure"):
        return _OF_FIGURE, _RETURNED_OF_FIGURE
    if binding == "/book":
        return _OF_BOOK, _RETURNED_OF_BOOK
    return _OF_SECTION, _RETURNED_OF_SECTION


def book_filters(count: int, values: int, seed: int = 14) -> list[str]:
    """Distinct filters of books, which ask for what the transformations ask for."""
    rng = random.Random(seed)
    queries: dict[str, None] = {}
    while len(queries) < count:
        binding = rng.choice(_BINDINGS)
        paths = rng.sample(_paths_of(binding)[0], rng.choice((1, 1, 1, 2)))
        tests = " and ".join(
            f'{f".{path}" if path.startswith("/") else path} = "v{rng.randrange(values)}"'
            for path in sorted(paths)
        )
        queries[f"{binding}[{tests}]"] = None
    return list(queries)


def book_queries(count: int, values: int, seed: int = 11) -> list[str]:
    """Distinct transformations of books."""
    rng = random.Random(seed)
    queries: dict[str, None] = {}
    while len(queries) < count:
        binding = rng.choice(_BINDINGS)
        predicates, returned = _paths_of(binding)
        tests = " and ".join(
            f'{_from_variable(path)} = "v{rng.randrange(values)}"'
            for path in sorted(rng.sample(predicates, rng.choice((1, 1, 1, 2))))
        )
        lists = "".join(
            f"{{{_from_variable(path)}}}"
            # Attributes first: after content they could not be added.
            for path in sorted(rng.sample(returned, rng.choice((1, 2))), key=_attributes_first)
        )
        queries[f"for $v in {binding} where {tests} return <r>{lists}</r>"] = None
    return list(queries)


def _attributes_first(path: str) -> tuple[bool, str]:
    return "@" not in path, path


def _from_variable(path: str) -> str:
    return f"$v{path}" if path.startswith("/") else f"$v/{path}"


BIB_DTD = b"""
<!ELEMENT bib (book*)>
<!ELEMENT book (title, author+, publisher, price)>
<!ELEMENT author (last, first)>
<!ELEMENT title (#PCDATA)> <!ELEMENT publisher (#PCDATA)> <!ELEMENT price (#PCDATA)>
<!ELEMENT last (#PCDATA)> <!ELEMENT first (#PCDATA)>
"""
_BIB_BINDINGS = ("/bib/book", "//book", "//book//author", "/bib//author", "//bib//book")
_OF_BIB_BOOK = ("title", "author/last", "//first", "publisher", "price", "//last")
_OF_AUTHOR = ("last", "first", "//last")


def bib_messages(count: int, values: int, seed: int = 12) -> list[bytes]:
    """Flat messages of some twenty books each."""
    rng = random.Random(seed)

    def text(name: str) -> str:
        return f"<{name}>v{rng.randrange(values)}</{name}>"

    messages = []
    for _ in range(count):
        books = ""
        for _ in range(rng.randint(15, 25)):
            authors = "".join(
                f"<author>{text('last')}{text('first')}</author>" for _ in range(rng.randint(1, 3))
            )
            books += f"<book>{text('title')}{authors}{text('publisher')}{text('price')}</book>"
        messages.append(f"<bib>{books}</bib>".encode())
    return messages


def bib_queries(count: int, values: int, seed: int = 13) -> list[str]:
    """Distinct transformations of bibs."""
    rng = random.Random(seed)
    queries: dict[str, None] = {}
    while len(queries) < count:
        binding = rng.choice(_BIB_BINDINGS)
        paths = _OF_AUTHOR if binding.endswith("author") else _OF_BIB_BOOK
        test = f'{_from_variable(rng.choice(paths))} = "v{rng.randrange(values)}"'
        returned = sorted(rng.sample(paths, 2))
        lists = "".join(f"{{{_from_variable(path)}}}" for path in returned)
        queries[f"for $v in {binding} where {test} return <r>{lists}</r>"] = None
    return list(queries)

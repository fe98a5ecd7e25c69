"""Random messages, and random queries that are made to match them.

A query over a random message nearly always selects nothing, and then all engines agree. So a query
is built around a node of the message: its path leads there, and most of its predicates hold there.
"""

from random import Random
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st

from broker.documents import DOCUMENT, Message, parse_message

NAMES = ["a", "b", "c"]
PREFIXED = ["p:a", "p:b", "q:a"]
TEXTS = ["1", "2", "10", "2.0", " 3 ", "x", "yz", "é&<>'\"", "-1", "1e1", "NaN", "+5", " "]
PROLOG = 'declare namespace p = "urn:p"; declare namespace q = "urn:q"; '


class Case(NamedTuple):
    """A message and a query for it."""

    data: bytes
    query: str


@st.composite
def messages(draw: st.DrawFn, *, namespaces: bool = True) -> bytes:
    """Small recursive messages over few names, so that `//` is ambiguous."""
    rng = draw(st.randoms(use_true_random=False))
    return random_message(rng, namespaces=namespaces)


@st.composite
def filters(draw: st.DrawFn) -> Case:
    """A message and a filter, most of which match."""
    rng = draw(st.randoms(use_true_random=False))
    data = random_message(rng)
    maker = QueryMaker(parse_message(data), rng)
    return Case(data, PROLOG + maker.filter())


@st.composite
def transformations(draw: st.DrawFn) -> Case:
    """A message and a FLWR query, most of which bind something."""
    rng = draw(st.randoms(use_true_random=False))
    data = random_message(rng)
    maker = QueryMaker(parse_message(data), rng)
    return Case(data, PROLOG + maker.flwr())


def chance(rng: Random, probability: float) -> bool:
    """True so often; false for the smallest number, so that what fails shrinks to what is small."""
    return rng.random() > 1 - probability


def random_message(rng: Random, *, namespaces: bool = True) -> bytes:
    """A message of up to some 25 elements."""
    budget = rng.randint(1, 25)
    names = NAMES + (PREFIXED if namespaces and chance(rng, 0.4) else [])

    def element(depth: int) -> str:
        nonlocal budget
        budget -= 1
        name = rng.choice(names)
        keys = [key for key in ("id", "k", "p:id") if chance(rng, 0.3)]
        if not namespaces:
            keys = [key for key in keys if ":" not in key]
        attributes = "".join(f" {key}={quoteattr(rng.choice(TEXTS))}" for key in keys)
        if namespaces and chance(rng, 0.05):
            attributes += rng.choice(
                [' xmlns="urn:q"', ' xmlns=""', ' xmlns:p="urn:q"', ' xmlns:z="urn:z"']
            )
        inner = ""
        while depth < 7 and budget > 0 and chance(rng, 0.7):
            if chance(rng, 0.4):
                inner += escape(rng.choice(TEXTS))
            if chance(rng, 0.06):
                inner += rng.choice(["<!--note-->", "<?do it?>", "<![CDATA[<2>]]>"])
            inner += element(depth + 1)
        if chance(rng, 0.5):
            inner += escape(rng.choice(TEXTS))
        return f"<{name}{attributes}>{inner}</{name}>"

    content = element(1)
    declarations = ' xmlns:p="urn:p" xmlns:q="urn:q"'
    if namespaces and chance(rng, 0.15):
        declarations += ' xmlns="urn:p"'
    end = len(content) - len(content.lstrip("<abcpq:"))
    return (content[:end] + _undoubled(declarations, content[end:]) + content[end:]).encode()


def _undoubled(declarations: str, rest: str) -> str:
    """The declarations without those that the root element has already."""
    tag = rest[: rest.index(">")]
    kept = [each for each in declarations.split() if f" {each.split('=')[0]}=" not in tag]
    return "".join(f" {each}" for each in kept)


class QueryMaker:
    """Makes queries around the nodes of one message."""

    def __init__(self, message: Message, rng: Random) -> None:
        self.message = message
        self.rng = rng

    def chance(self, probability: float) -> bool:
        return chance(self.rng, probability)

    def filter(self, nesting: int = 2) -> str:
        if nesting and self.chance(0.25):
            operands = [self.filter(nesting - 1) for _ in range(self.rng.randint(2, 3))]
            return f"({self.rng.choice([' and ', ' or ']).join(operands)})"
        if nesting and self.chance(0.1):
            return f"not({self.filter(nesting - 1)})"
        return self.absolute(self.any_node(), 2)

    def any_node(self) -> int:
        return self.rng.randint(1, self.message.last)

    # Paths

    def absolute(self, target: int, nesting: int, *, end: float = 0.2) -> str:
        chain = [target]
        while self.message.parent(chain[0]) != DOCUMENT:
            chain.insert(0, self.message.parent(chain[0]))
        return self.steps(chain, nesting) + self.end(target, end)

    def relative(self, origin: int, nesting: int, *, end: float = 0.3) -> str:
        """Steps from a node to one below it (with a separator first), or up and down again."""
        if origin != DOCUMENT and self.chance(0.12):
            parent = self.message.parent(origin)
            predicate = self.predicate(parent, nesting, None) if parent and self.chance(0.2) else ""
            rest = self.relative(parent, nesting, end=end) if parent and self.chance(0.7) else ""
            return self.rng.choice(["/", "/", "/", "//"]) + ".." + predicate + rest
        below = range(origin + 1, self.message.ends[origin] + 1)
        if not below or self.chance(0.1):
            return "/" + self.rng.choice(NAMES) if self.chance(0.5) else self.end(origin, 1)
        chain = [self.rng.choice(below)]
        while self.message.parent(chain[0]) != origin:
            chain.insert(0, self.message.parent(chain[0]))
        return self.steps(chain, nesting) + self.end(chain[-1], end)

    def steps(self, chain: list[int], nesting: int) -> str:
        text = ""
        separator = "/"
        for index, node in enumerate(chain):
            if index < len(chain) - 1 and self.chance(0.3):
                separator = "//"
                continue
            if self.chance(0.25):
                separator = "//"
            text += separator + self.test(node)
            separator = "/"
            while nesting and self.chance(0.25):
                text += self.predicate(node, nesting - 1, text)
        return text

    def test(self, node: int) -> str:
        namespace, local = self.message.name(node)
        prefix = {"": "", "urn:p": "p:", "urn:q": "q:"}[namespace]
        choices = [prefix + local] * 5 + ["*", f"*:{local}"]
        if prefix:
            choices.append(f"{prefix}*")
        return self.rng.choice(choices)

    def end(self, node: int, probability: float) -> str:
        if not self.chance(probability):
            return ""
        separator = self.rng.choice(["/", "/", "//"])
        names = list(self.message.attributes(node))
        if names and self.chance(0.7):
            name = self.rng.choice(names)
            prefix = {"": "", "urn:p": "p:", "urn:q": "q:"}[name.namespace]
            return f"{separator}@{prefix}{name.local}"
        return separator + self.rng.choice(["text()", "text()", "@id", "@k", "@p:id"])

    # Predicates

    def predicate(self, node: int, nesting: int, path_before: str | None) -> str:
        del path_before
        if self.chance(0.3):
            return f"[{self.position_test(node)}]"
        return f"[{self.condition(node, nesting)}]"

    def position_test(self, node: int) -> str:
        siblings = self.message.children(self.message.parent(node)) if node else []
        place = siblings.index(node) + 1 if node else 1
        number = self.rng.choice([place, self.message.position(node), self.rng.randint(0, 3)])
        operator = self.rng.choice(["=", "!=", "<", "<=", ">", ">="])
        return self.rng.choice(
            [str(number), f"position() {operator} {number}", "last()", f"{number}.0"]
        )

    def condition(self, node: int, nesting: int) -> str:
        if nesting and self.chance(0.2):
            parts = [self.condition(node, nesting - 1) for _ in range(2)]
            return f"({self.rng.choice([' and ', ' or ']).join(parts)})"
        if nesting and self.chance(0.15):
            return f"not({self.condition(node, nesting - 1)})"
        return self.test_of(self.operand(node, nesting))

    def operand(self, node: int, nesting: int) -> str:
        if self.chance(0.15):
            return "."
        if self.chance(0.1):
            return self.absolute(self.any_node(), min(nesting, 1))
        path = self.relative(node, nesting)
        return "." + path if path.startswith("//") else path[1:] or "."

    def test_of(self, path: str) -> str:
        literal = self.literal()
        operator = self.rng.choice(["=", "=", "!=", "<", "<=", ">", ">="])
        number = self.rng.randint(0, 3)
        return self.rng.choice(
            [
                path,
                path,
                f"{path} {operator} {literal}",
                f"{path} {operator} {literal}",
                f"count({path}) {operator} {number}",
                f"string-length({path}) {operator} {number}",
                f"contains({path}, {self.string()})",
                f"starts-with({path}, {self.string()})",
            ]
        )

    def literal(self) -> str:
        numbers = ["1", "2", "10.0", "-1", "3", ".5", "2.50"]
        return self.rng.choice(numbers) if self.chance(0.5) else self.string()

    def string(self) -> str:
        text = self.rng.choice(["", "1", "2", "10", "x", "y", "é", " ", "z"])
        quote = self.rng.choice("'\"")
        return f"{quote}{text}{quote}"

    # FLWR

    def flwr(self) -> str:
        self.variables = {"v": self.any_node()}
        clauses = [f"for $v in {self.absolute(self.variables['v'], 2, end=0.05)}"]
        for name in ("w", "u"):
            if self.chance(0.3):
                origin = self.rng.choice(list(self.variables))
                path = self.variable_path(origin, 1)
                if self.chance(0.2):
                    path = self.absolute(self.any_node(), 1)
                clauses.append(f"let ${name} := {path}")
                self.variables[name] = self.any_node()
        if self.chance(0.6):
            clauses.append(f"where {self.where(2)}")
        if self.chance(0.4):
            keys = [self.order_key() for _ in range(self.rng.randint(1, 2))]
            clauses.append("order by " + ", ".join(keys))
        if self.chance(0.15):
            clauses.append("return " + self.embedded())
        else:
            clauses.append("return " + self.element(2))
        body = " ".join(clauses)
        if not self.chance(0.5):
            return body
        tag = self.rng.choice(["r", "r", 'r kind="a&amp;""b"', "p:r q:k='{{'"])
        return f"<{tag}>{{ {body} }}</{tag.split()[0]}>"

    def variable_path(self, name: str, nesting: int, *, end: float = 0.3) -> str:
        if self.chance(0.2):
            return f"${name}"
        return f"${name}" + self.relative(self.variables[name], nesting, end=end)

    def any_variable_path(self, *, end: float = 0.3) -> str:
        return self.variable_path(self.rng.choice(list(self.variables)), 1, end=end)

    def where(self, nesting: int) -> str:
        if nesting and self.chance(0.3):
            parts = [self.where(nesting - 1) for _ in range(2)]
            return f"({self.rng.choice([' and ', ' or ']).join(parts)})"
        if nesting and self.chance(0.15):
            return f"not({self.where(nesting - 1)})"
        if self.chance(0.1):
            return f"$v/position() {self.rng.choice(['=', '<', '!='])} {self.rng.randint(1, 3)}"
        return self.test_of(self.any_variable_path())

    def order_key(self) -> str:
        path = self.any_variable_path()
        key = self.rng.choice([path, f"number({path})", f"count({path})", "$v/position()"])
        return key + self.rng.choice(["", "", " ascending", " descending"])

    def embedded(self) -> str:
        path = self.any_variable_path()
        choices = [path] * 5 + [f"count({path})", f"string({path})", "$v/position()"]
        return self.rng.choice(choices)

    def element(self, depth: int) -> str:
        name = self.rng.choice(["hit", "a", "p:out", "x"])
        attributes = ""
        if self.chance(0.2):
            attributes += ' xmlns="urn:new"' if self.chance(0.5) else ' xmlns:n="urn:new"'
        if self.chance(0.1):
            attributes += self.rng.choice([" p:k='&quot;x'", ' k="a\n\tb"', ' q:k="x""y"'])
        if self.chance(0.3):
            attributes += (
                f' n="{self.rng.choice(["", "k-"])}{{{self.embedded()}}}{{{self.embedded()}}}"'
            )
        content = ""
        for _ in range(self.rng.randint(0, 3)):
            if self.chance(0.25):
                content += self.rng.choice([" text ", "&lt;&amp;", "{{}}", "&#32;", "  "])
            if depth and self.chance(0.25):
                content += self.element(depth - 1)
            else:
                content += f"{{{self.embedded()}}}"
        return f"<{name}{attributes}>{content}</{name}>"

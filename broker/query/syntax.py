"""The syntax tree of a query: immutable nodes that compare by meaning.

Equality ignores where a node stands in the text (`span`) and how its author named variables;
names are held as expanded names, so prefixes are gone. Hence two spellings of a query that mean
the same by grammar alone are equal trees, and sharing can hang on that.

A query is a `Filter` (a condition over paths from the root) or a `Flwr`. Both are built from
`Path`: where it starts, its steps over elements, and what it takes at the end.
"""

from collections.abc import Iterator
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from broker.names import ExpandedName
from broker.query.node import KeepsHash, node

if TYPE_CHECKING:
    from broker.query.shapes import Shape

Span = tuple[int, int]
"""Offsets of a node's first character and of the one after its last, in the query's text."""


class Symbol(Enum):
    """An enumeration whose members have the hash of objects: queries are hashed by the million."""

    __hash__ = object.__hash__


class Axis(Symbol):
    """The separator before a step."""

    CHILD = "/"
    DESCENDANT = "//"


class NameTest(NamedTuple):
    """Which elements a step accepts; None stands for any. `*` is `NameTest(None, None)`."""

    namespace: str | None
    local: str | None

    def accepts(self, name: ExpandedName) -> bool:
        """Whether an element with this name passes."""
        return (self.local is None or self.local == name.local) and (
            self.namespace is None or self.namespace == name.namespace
        )


class Parent(Symbol):
    """The node test of the step `..`."""

    PARENT = ".."


PARENT = Parent.PARENT


@node
class Step:
    """One step over elements. Steps without predicates are interned: equal ones are one object.

    So a step has no span of its own; its path and its predicates have theirs.
    """

    axis: Axis
    test: NameTest | Parent
    predicates: tuple["Predicate", ...] = ()


class EndKind(Symbol):
    """What a path takes from the elements that its steps reach."""

    ATTRIBUTE = "attribute"
    TEXT = "text"
    POSITION = "position"


@node
class End:
    """The last step of a path, if it is `@name`, `text()` or `position()`."""

    axis: Axis
    kind: EndKind
    name: ExpandedName | None = None


class Root(Symbol):
    """The start of an absolute path: the document."""

    ROOT = "root"


class Context(Symbol):
    """The start of a relative path in a predicate: the element that the predicate is tried on."""

    CONTEXT = "context"


ROOT = Root.ROOT
CONTEXT = Context.CONTEXT


@node
class Variable:
    """A variable by its role: 0 is the `for` variable, 1 the first `let`, and so on."""

    index: int
    name: str = field(compare=False, default="v")


@node
class Path:
    """A path: `start`, the steps, and what is taken at the end (None: the elements)."""

    start: Root | Context | Variable
    steps: tuple[Step, ...]
    end: End | None
    span: Span = field(compare=False, default=(0, 0))


class Operator(Symbol):
    """A comparison with a literal."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@node
class Count:
    """`count(path)`."""

    path: Path
    span: Span = field(compare=False, default=(0, 0))


@node
class StringLength:
    """`string-length(path)`, of the first node in document order."""

    path: Path
    span: Span = field(compare=False, default=(0, 0))


@node
class StringOf:
    """`string(path)`, of the first node in document order; only in a return."""

    path: Path
    span: Span = field(compare=False, default=(0, 0))


Operand = Path | Count | StringLength
Literal = str | float


@node
class Exists:
    """A path alone: true if it selects at least one node."""

    path: Path

    @property
    def span(self) -> Span:
        """The span of the path."""
        return self.path.span


@node
class Comparison:
    """`operand op literal`, true if it holds for at least one node of the operand."""

    operand: Operand
    operator: Operator
    literal: Literal
    span: Span = field(compare=False, default=(0, 0))


class StringFunction(Symbol):
    """The string tests of the language."""

    CONTAINS = "contains"
    STARTS_WITH = "starts-with"


@node
class StringTest:
    """`contains(path, literal)` or `starts-with(path, literal)`, on the path's first node."""

    function: StringFunction
    path: Path
    literal: str
    span: Span = field(compare=False, default=(0, 0))


@node
class Not:
    """`not(condition)`."""

    operand: "Condition"
    span: Span = field(compare=False, default=(0, 0))


@node
class And:
    """A conjunction of two or more; none of them is a conjunction itself."""

    operands: tuple["Condition", ...]
    span: Span = field(compare=False, default=(0, 0))


@node
class Or:
    """A disjunction of two or more; none of them is a disjunction itself."""

    operands: tuple["Condition", ...]
    span: Span = field(compare=False, default=(0, 0))


Condition = Exists | Comparison | StringTest | Not | And | Or


@node
class PositionTest:
    """`[n]` and `[position() op n]`: the position among the step's candidates of one parent."""

    operator: Operator
    number: float
    span: Span = field(compare=False, default=(0, 0))


@node
class LastTest:
    """`[last()]`: the last of the step's candidates of one parent."""

    span: Span = field(compare=False, default=(0, 0))


Predicate = PositionTest | LastTest | Condition


@node
class Let:
    """A `let` clause: the nodes of `path`, once for each binding."""

    path: Path
    name: str = field(compare=False, default="w")
    span: Span = field(compare=False, default=(0, 0))


@node
class OrderKey:
    """A key of `order by`; `numeric` if it was wrapped in `number()` or is a number anyway."""

    operand: Operand
    numeric: bool
    descending: bool
    span: Span = field(compare=False, default=(0, 0))


class ConstantName(NamedTuple):
    """The name of a constant element or attribute. Its prefix is seen in the output: it counts."""

    prefix: str
    namespace: str
    local: str

    @property
    def lexical(self) -> str:
        """The name as it is written in a tag."""
        return f"{self.prefix}:{self.local}" if self.prefix else self.local


@node
class Embedded:
    """`{…}` in a template: one list of each group."""

    value: Path | Count | StringOf
    span: Span = field(compare=False, default=(0, 0))
    text: str = field(compare=False, default="")
    """As its author wrote it."""


@node
class ConstantAttribute:
    """An attribute of a constant element: literal text and embedded expressions in turn."""

    name: ConstantName
    parts: tuple[str | Embedded, ...]
    span: Span = field(compare=False, default=(0, 0))


@node
class ConstantElement:
    """An element of the template. `namespaces` are its own `xmlns` declarations, as written."""

    name: ConstantName
    namespaces: tuple[tuple[str, str], ...]
    attributes: tuple[ConstantAttribute, ...]
    content: tuple["TemplateItem", ...]
    span: Span = field(compare=False, default=(0, 0))


TemplateItem = str | Embedded | ConstantElement
"""An item of a template; a `str` is literal text."""


@node
class Filter(KeepsHash):
    """A subscription to whole messages: those for which the condition holds."""

    condition: Condition
    source: str = field(compare=False, default="")


@node
class Flwr(KeepsHash):
    """A subscription to parts of messages. `wrapper` is the element around all groups, if any."""

    binding: Path
    lets: tuple[Let, ...]
    where: Condition | None
    order_by: tuple[OrderKey, ...]
    template: tuple[TemplateItem, ...]
    wrapper: ConstantElement | None
    source: str = field(compare=False, default="")
    shape: "Shape | None" = field(compare=False, default=None)
    """What it has in common with queries that differ only in literals, if that is known."""
    literals: tuple[Literal, ...] = field(compare=False, default=())
    """Those of the conditions of `where`, in the order of the text."""

    def __hash__(self) -> int:
        return hash((self.skeleton(), self.literals))

    def skeleton(self) -> int:
        """A hash of all but the literals."""
        where = None if self.where is None else _skeleton(self.where)
        return hash((self.binding, self.lets, where, self.order_by, self.template, self.wrapper))

    def embedded(self) -> Iterator[Embedded]:
        """The embedded expressions, each of which makes one list, in the order of the text."""
        yield from _embedded_in(self.template)

    def list_names(self) -> tuple[str, ...]:
        """What the lists of a group are called: the expressions as their author wrote them."""
        return tuple(" ".join(embedded.text.split()) for embedded in self.embedded())


Query = Filter | Flwr


def conditions_with_literals(condition: Condition | None) -> Iterator[Comparison | StringTest]:
    """Those in a condition, in the order of the text, without those in the predicates of paths."""
    match condition:
        case And(operands) | Or(operands):
            for operand in operands:
                yield from conditions_with_literals(operand)
        case Not(operand):
            yield from conditions_with_literals(operand)
        case Comparison() | StringTest():
            yield condition


def _skeleton(condition: Condition) -> int:
    """A hash of a condition without its literals."""
    match condition:
        case And(operands) | Or(operands):
            return hash((type(condition), *map(_skeleton, operands)))
        case Not(operand):
            return hash((Not, _skeleton(operand)))
        case Comparison(operand, operator):
            return hash((operand, operator))
        case StringTest(function, path):
            return hash((function, path))
    return hash(condition)


def _embedded_in(items: tuple[TemplateItem, ...]) -> Iterator[Embedded]:
    for item in items:
        if isinstance(item, Embedded):
            yield item
        elif isinstance(item, ConstantElement):
            for attribute in item.attributes:
                for part in attribute.parts:
                    if isinstance(part, Embedded):
                        yield part
            yield from _embedded_in(item.content)

"""Our queries in the words of the oracles.

Most of the language is XPath or XQuery as it stands. What `tests/data/oracle_differences.json`
lists is spelled out here, so that the oracles answer what the language means.
"""

from broker.query.syntax import (
    CONTEXT,
    PARENT,
    ROOT,
    And,
    Axis,
    Comparison,
    Condition,
    ConstantElement,
    Count,
    Embedded,
    EndKind,
    Exists,
    Filter,
    Flwr,
    LastTest,
    NameTest,
    Not,
    Operand,
    Operator,
    Or,
    OrderKey,
    Path,
    PositionTest,
    Predicate,
    Step,
    StringLength,
    StringOf,
    StringTest,
    TemplateItem,
    Variable,
)

PREFIXES = {"p": "urn:p", "q": "urn:q", "n": "urn:new"}
"""The namespaces of generated messages and queries."""

_BY_NAMESPACE = {uri: prefix for prefix, uri in PREFIXES.items()}


class UntranslatableError(Exception):
    """The oracle has no words for the query."""


class XPath10:
    """For libxml2. It has no string ordering, and `!=` holds for what is no number."""

    def path(self, path: Path) -> str:
        if isinstance(path.start, Variable):
            raise UntranslatableError
        text = "." if path.start is CONTEXT else ""
        for step in path.steps:
            text += step.axis.value + self.test(step) + self.predicates(step)
        if path.end is not None:
            if path.end.kind is EndKind.POSITION:
                raise UntranslatableError
            text += path.end.axis.value
            if path.end.kind is EndKind.TEXT:
                text += "text()"
            else:
                assert path.end.name is not None
                prefix = _BY_NAMESPACE.get(path.end.name.namespace)
                text += f"@{prefix}:{path.end.name.local}" if prefix else f"@{path.end.name.local}"
        return text

    def test(self, step: Step) -> str:
        if step.test is PARENT:
            return "parent::node()"
        assert isinstance(step.test, NameTest)
        namespace, local = step.test
        if namespace is None:
            return "*" if local is None else f"*[local-name() = '{local}']"
        prefix = _BY_NAMESPACE.get(namespace)
        if local is None:
            return f"{prefix}:*"
        return f"{prefix}:{local}" if prefix else local

    def predicates(self, step: Step) -> str:
        return "".join(f"[{self.predicate(predicate)}]" for predicate in step.predicates)

    def predicate(self, predicate: Predicate) -> str:
        match predicate:
            case PositionTest(operator, number):
                return f"position() {operator.value} {number:f}"
            case LastTest():
                return "position() = last()"
        return f"boolean({self.condition(predicate)})"

    def condition(self, condition: Condition) -> str:
        match condition:
            case And(operands):
                return "(" + " and ".join(self.condition(each) for each in operands) + ")"
            case Or(operands):
                return "(" + " or ".join(self.condition(each) for each in operands) + ")"
            case Not(operand):
                return f"not({self.condition(operand)})"
            case Exists(path):
                return f"boolean({self.path(path)})"
            case StringTest(function, path, literal):
                return f"{function.value}({self.first(path)}, {self.string(literal)})"
            case Comparison(operand, operator, literal):
                return self.comparison(operand, operator, literal)

    def first(self, path: Path) -> str:
        return self.path(path)

    def comparison(self, operand: Operand, operator: Operator, literal: str | float) -> str:
        if isinstance(literal, str):
            if operator not in (Operator.EQ, Operator.NE):
                raise UntranslatableError
            value = self.string(literal)
        else:
            if operator is Operator.NE and isinstance(operand, Path):
                raise UntranslatableError
            value = f"{literal:f}"
            if isinstance(operand, Path):
                return self.with_number(operand, f"{operator.value} {value}")
        return f"{self.operand(operand)} {operator.value} {value}"

    def with_number(self, path: Path, comparison: str) -> str:
        """Whether a node's number compares so; libxml2 reads none that begins with a plus."""
        nodes = "self::node()" if (text := self.path(path)) == "." else text
        unsigned = "substring-after(normalize-space(.), '+')"
        digit = f"contains('.0123456789', substring({unsigned}, 1, 1))"
        has_plus = f"starts-with(normalize-space(.), '+') and {digit}"
        with_plus = f"{has_plus} and number({unsigned}) {comparison}"
        return f"boolean({nodes}[number(.) {comparison} or {with_plus}])"

    def operand(self, operand: Operand | StringOf) -> str:
        if isinstance(operand, Path):
            return self.path(operand)
        if isinstance(operand, Count):
            return f"count({self.path(operand.path)})"
        function = "string-length" if isinstance(operand, StringLength) else "string"
        return f"{function}({self.first(operand.path)})"

    def string(self, text: str) -> str:
        if '"' in text and "'" in text:
            raise UntranslatableError
        return f"'{text}'" if '"' in text else f'"{text}"'


class XQuery(XPath10):
    """For Saxon. It makes an error of what is no number, and of several nodes as one value."""

    def path(self, path: Path) -> str:
        if isinstance(path.start, Variable):
            start = f"$x{path.start.index}"
        else:
            start = "root(.)" if path.start is ROOT else "."
        bare = Path(CONTEXT, path.steps, None if self.is_position(path) else path.end)
        text = start + super().path(bare).removeprefix(".")
        if self.is_position(path):
            return (
                f"(for $n in {text} return 1 + count($n/preceding-sibling::*"
                "[node-name(.) = node-name($n)]))"
            )
        return text

    @staticmethod
    def is_position(operand: Operand | StringOf) -> bool:
        return (
            isinstance(operand, Path)
            and operand.end is not None
            and operand.end.kind is EndKind.POSITION
        )

    def first(self, path: Path) -> str:
        return f"({self.path(path)})[1]"

    def comparison(self, operand: Operand, operator: Operator, literal: str | float) -> str:
        if isinstance(literal, str):
            return f"{self.operand(operand)} {operator.value} {self.string(literal)}"
        is_number = not isinstance(operand, Path) or self.is_position(operand)
        # Of a string, unlike untyped data, Saxon does not pass over white space around NaN and INF.
        text = "normalize-space(string($n))"
        value = "$n" if is_number else f"xs:double({text})"
        guard = "true()" if is_number else f"{text} castable as xs:double"
        return (
            f"(some $n in {self.operand(operand)} satisfies "
            f"(if ({guard}) then {value} {operator.value} {literal:f} else false()))"
        )

    def string(self, text: str) -> str:
        return '"' + text.replace("&", "&amp;").replace('"', '""').replace("\r", "&#13;") + '"'

    def flwr(self, query: Flwr, *, as_paths: bool = False) -> str:
        """The query for Saxon; with `as_paths`, the lists as paths to their nodes."""
        clauses = [f"for $x0 in {self.path(query.binding)}"]
        for number, let in enumerate(query.lets, start=1):
            clauses.append(f"let $x{number} := {self.path(let.path)}")
        if query.where is not None:
            clauses.append(f"where {self.condition(query.where)}")
        if query.order_by:
            clauses.append("order by " + ", ".join(self.order_key(key) for key in query.order_by))
        if as_paths:
            lists = "".join(self.list_of_paths(embedded) for embedded in query.embedded())
            body = " ".join([*clauses, f"return <group>{lists}</group>"])
            return self.prolog() + f"<groups>{{ {body} }}</groups>"
        body = " ".join([*clauses, "return (", self.sequence(query.template), ")"])
        if query.wrapper is not None:
            tag = self.open_tag(query.wrapper)
            body = f"<{tag}>{{ {body} }}</{query.wrapper.name.lexical}>"
        return self.prolog() + body

    def prolog(self) -> str:
        lines = [f'declare namespace {prefix} = "{uri}";' for prefix, uri in PREFIXES.items()]
        return "\n".join([*lines, "declare default order empty least;", ""])

    def order_key(self, key: OrderKey) -> str:
        operand = self.operand(key.operand)
        is_path = isinstance(key.operand, Path)
        text = f"({operand})[1]" if is_path else operand
        if key.numeric:
            text = f"number({text})"
        return text + (" descending" if key.descending else "")

    def list_of_paths(self, embedded: Embedded) -> str:
        value = embedded.value
        if not isinstance(value, Path) or self.is_position(value):
            return f"<list>{{ for $n in {self.operand(value)} return <i>{{$n}}</i> }}</list>"
        return f"<list>{{ for $n in {self.path(value)} return <i>{{path($n)}}</i> }}</list>"

    def sequence(self, items: tuple[TemplateItem, ...]) -> str:
        return ", ".join(
            self.operand(item.value) if isinstance(item, Embedded) else self.item(item)
            for item in items
        )

    def item(self, item: TemplateItem) -> str:
        if isinstance(item, str):
            return self.text(item)
        if isinstance(item, Embedded):
            return f"{{{self.operand(item.value)}}}"
        content = "".join(self.item(each) for each in item.content)
        return f"<{self.open_tag(item)}>{content}</{item.name.lexical}>"

    def open_tag(self, element: ConstantElement) -> str:
        parts = [element.name.lexical]
        for prefix, uri in element.namespaces:
            parts.append(f'xmlns{":" + prefix if prefix else ""}="{uri}"')
        for attribute in element.attributes:
            value = "".join(
                self.text(part) if isinstance(part, str) else self.item(part)
                for part in attribute.parts
            )
            parts.append(f'{attribute.name.lexical}="{value}"')
        return " ".join(parts)

    @staticmethod
    def text(text: str) -> str:
        # Braces by number too: Saxon 13 stumbles over a doubled one before a quote.
        return "".join(f"&#{ord(char)};" if char in "&<>{}\"' \t\r\n" else char for char in text)


def filter_for_lxml(query: Filter) -> str:
    """A filter as XPath 1.0."""
    return f"boolean({XPath10().condition(query.condition)})"


def filter_for_saxon(query: Filter) -> str:
    """A filter as XQuery."""
    return XQuery().prolog() + f"boolean({XQuery().condition(query.condition)})"


__all__ = [
    "Axis",
    "UntranslatableError",
    "XPath10",
    "XQuery",
    "filter_for_lxml",
    "filter_for_saxon",
]

"""Canonical text: the one spelling of a query that all its equal spellings share.

White space, quotes, `document("x")`, parentheses that change nothing, variable and prefix names
and the form of numbers are gone. What is seen in the output stays: prefixes of constant tags.
`parse(unparse(query)) == query`; the text may be somewhat longer than what was registered, so it
may have to be parsed with a wider limit on the length.
"""

from decimal import Decimal

from broker.names import XML_NAMESPACE
from broker.query.syntax import (
    CONTEXT,
    PARENT,
    And,
    Comparison,
    Condition,
    ConstantElement,
    Count,
    Embedded,
    End,
    EndKind,
    Exists,
    Filter,
    Flwr,
    LastTest,
    Literal,
    NameTest,
    Not,
    Operand,
    Operator,
    Or,
    OrderKey,
    Path,
    PositionTest,
    Predicate,
    Query,
    Step,
    StringOf,
    StringTest,
    TemplateItem,
    Variable,
)


def unparse(query: Query) -> str:
    """The canonical text of a query.

    >>> from broker.query.shapes import parse
    >>> unparse(parse("doc('x') // book [ ./price<50.0 ] "))
    '//book[price < 50]'
    """
    writer = _Writer(query)
    body = writer.condition(query.condition) if isinstance(query, Filter) else writer.flwr(query)
    return writer.prolog() + body


def fragment(part: Path | Predicate) -> str:
    """The text of a part of a query, as messages show it: names in a namespace as {uri}local."""
    writer = _PlainWriter(None)
    return writer.path(part) if isinstance(part, Path) else writer.predicate(part)


def value_text(value: Path | Count | StringOf) -> str:
    """The text of an embedded expression, likewise."""
    return _PlainWriter(None).operand(value)


def literal_text(literal: Literal) -> str:
    """The text of a constant, likewise."""
    return _PlainWriter(None).literal(literal)


def order_key_text(key: OrderKey) -> str:
    """The text of a key of `order by`, likewise."""
    return _PlainWriter(None).order_key(key)


class _Writer:
    """Writes one query; collects the prefixes that its prolog must declare."""

    def __init__(self, query: Query | None) -> None:
        self.is_flwr = isinstance(query, Flwr)
        self.generated: dict[str, str] = {}
        self.kept: dict[str, str] = {}
        self.default_namespace = ""
        self.declared_in_tags: set[str] = set()
        self.taken = set(_constant_prefixes(query)) if isinstance(query, Flwr) else set()

    def prolog(self) -> str:
        lines = [
            f"declare namespace {prefix} = {self.string(uri)}; "
            for uri, prefix in self.generated.items()
        ]
        lines += [
            f"declare namespace {prefix} = {self.string(uri)}; "
            for prefix, uri in sorted(self.kept.items())
        ]
        if self.default_namespace:
            uri = self.string(self.default_namespace)
            lines.append(f"declare default element namespace {uri}; ")
        return "".join(lines)

    # Paths

    def path(self, path: Path) -> str:
        steps = "".join(self.step(step) for step in path.steps)
        if path.end is not None:
            steps += self.end(path.end)
        if isinstance(path.start, Variable):
            return variable_name(path.start) + steps
        if path.start is CONTEXT:
            if not steps:
                return "."
            return "." + steps if steps.startswith("//") else steps[1:]
        return steps

    def step(self, step: Step) -> str:
        predicates = "".join(f"[{self.predicate(predicate)}]" for predicate in step.predicates)
        return step.axis.value + self.test(step) + predicates

    def test(self, step: Step) -> str:
        if step.test is PARENT:
            return ".."
        assert isinstance(step.test, NameTest)
        namespace, local = step.test
        if namespace is None:
            return "*" if local is None else f"*:{local}"
        return f"{self.prefix(namespace)}{local or '*'}"

    def end(self, end: End) -> str:
        axis = end.axis.value
        if end.kind is EndKind.ATTRIBUTE:
            assert end.name is not None
            return f"{axis}@{self.prefix(end.name.namespace)}{end.name.local}"
        return f"{axis}{end.kind.value}()"

    def prefix(self, namespace: str) -> str:
        """The generated prefix of a namespace with its colon; nothing for no namespace."""
        if not namespace:
            return ""
        if namespace == XML_NAMESPACE:
            return "xml:"
        if namespace not in self.generated:
            number = len(self.generated) + 1
            while f"n{number}" in self.taken:
                number += 1
            self.taken.add(f"n{number}")
            self.generated[namespace] = f"n{number}"
        return f"{self.generated[namespace]}:"

    # Conditions

    def predicate(self, predicate: Predicate) -> str:
        match predicate:
            case LastTest():
                return "last()"
            case PositionTest(Operator.EQ, number):
                return self.literal(number)
            case PositionTest(operator, number):
                return f"position() {operator.value} {self.literal(number)}"
        return self.condition(predicate)

    def condition(self, condition: Condition) -> str:
        match condition:
            case Or(operands):
                return " or ".join(self.condition(operand) for operand in operands)
            case And(operands):
                return " and ".join(
                    f"({text})" if isinstance(operand, Or) else text
                    for operand in operands
                    for text in [self.condition(operand)]
                )
            case Not(operand):
                return f"not({self.condition(operand)})"
            case StringTest(function, path, literal):
                return f"{function.value}({self.path(path)}, {self.string(literal)})"
            case Comparison(operand, operator, literal):
                return f"{self.operand(operand)} {operator.value} {self.literal(literal)}"
            case Exists(path):
                return self.path(path)

    def operand(self, operand: Operand | StringOf) -> str:
        if isinstance(operand, Path):
            return self.path(operand)
        name = {"Count": "count", "StringLength": "string-length", "StringOf": "string"}
        return f"{name[type(operand).__name__]}({self.path(operand.path)})"

    # Literals

    def literal(self, literal: Literal) -> str:
        return self.string(literal) if isinstance(literal, str) else number_text(literal)

    def string(self, text: str) -> str:
        if self.is_flwr:
            text = text.replace("&", "&amp;").replace("\r", "&#13;")
        if '"' not in text:
            return f'"{text}"'
        if "'" not in text:
            return f"'{text}'"
        return '"' + text.replace('"', '""') + '"'

    # FLWR

    def flwr(self, query: Flwr) -> str:
        tag = self.open_tag(query.wrapper) if query.wrapper is not None else ""
        clauses = [f"for $v in {self.path(query.binding)}"]
        for number, let in enumerate(query.lets, start=1):
            clauses.append(f"let $w{number} := {self.path(let.path)}")
        if query.where is not None:
            clauses.append(f"where {self.condition(query.where)}")
        if query.order_by:
            keys = ", ".join(self.order_key(key) for key in query.order_by)
            clauses.append(f"order by {keys}")
        clauses.append("return " + self.template(query.template))
        body = " ".join(clauses)
        if query.wrapper is None:
            return body
        return f"<{tag}>{{ {body} }}</{query.wrapper.name.lexical}>"

    def order_key(self, key: OrderKey) -> str:
        text = self.operand(key.operand)
        is_number = not isinstance(key.operand, Path) or (
            key.operand.end is not None and key.operand.end.kind is EndKind.POSITION
        )
        if key.numeric and not is_number:
            text = f"number({text})"
        return text + (" descending" if key.descending else "")

    def template(self, items: tuple[TemplateItem, ...]) -> str:
        return "".join(self.template_item(item) for item in items)

    def template_item(self, item: TemplateItem) -> str:
        if isinstance(item, str):
            return self.constant_text(item)
        if isinstance(item, Embedded):
            return self.braces(item)
        outer = self.declared_in_tags
        tag = self.open_tag(item)
        content = self.template(item.content)
        self.declared_in_tags = outer
        return f"<{tag}>{content}</{item.name.lexical}>" if content else f"<{tag}/>"

    def open_tag(self, element: ConstantElement) -> str:
        parts = [element.name.lexical]
        self.declared_in_tags = self.declared_in_tags | {p for p, _ in element.namespaces}
        for prefix, uri in element.namespaces:
            declaration = f"xmlns:{prefix}" if prefix else "xmlns"
            parts.append(f'{declaration}="{_attribute_text(uri)}"')
        names = [element.name, *(a.name for a in element.attributes if a.name.prefix)]
        for name in names:
            if name.prefix in self.declared_in_tags or name.prefix == "xml":
                continue
            if name.prefix:
                self.kept[name.prefix] = name.namespace
            elif name.namespace:
                self.default_namespace = name.namespace
        for attribute in element.attributes:
            value = "".join(
                _attribute_text(part) if isinstance(part, str) else self.braces(part)
                for part in attribute.parts
            )
            parts.append(f'{attribute.name.lexical}="{value}"')
        return " ".join(parts)

    def braces(self, embedded: Embedded) -> str:
        value = embedded.value
        assert isinstance(value, Path | Count | StringOf)
        return f"{{{self.operand(value)}}}"

    def constant_text(self, text: str) -> str:
        escaped = _escape(text)
        # White space alone would be dropped as boundary space; a reference is kept.
        if not text.strip(" \t\n"):
            escaped = f"&#{ord(text[0])};{escaped[1:]}"
        return escaped


def variable_name(variable: Variable) -> str:
    """The canonical name of a variable: `$v` for the binding, `$w1`, `$w2` … for each `let`."""
    return f"$w{variable.index}" if variable.index else "$v"


def number_text(number: float) -> str:
    """A number as the language writes it: no exponent, no needless fraction."""
    if number.is_integer():
        return str(int(number))
    return format(Decimal(repr(number)), "f")


def _escape(text: str) -> str:
    for char, escape in (("&", "&amp;"), ("<", "&lt;"), ("{", "{{"), ("}", "}}"), ("\r", "&#13;")):
        text = text.replace(char, escape)
    return text


def _attribute_text(text: str) -> str:
    text = _escape(text).replace('"', '""')
    return text.replace("\n", "&#10;").replace("\t", "&#9;")


class _PlainWriter(_Writer):
    """Writes namespaces out."""

    def prefix(self, namespace: str) -> str:
        """The namespace itself."""
        return f"{{{namespace}}}" if namespace else ""


def _constant_prefixes(query: Flwr) -> list[str]:
    """Prefixes that constant tags use or declare, which generated ones must not be."""
    prefixes: list[str] = []
    pending: list[TemplateItem] = list(query.template)
    if query.wrapper is not None:
        pending.append(query.wrapper)
    while pending:
        item = pending.pop()
        if isinstance(item, ConstantElement):
            prefixes.append(item.name.prefix)
            prefixes.extend(prefix for prefix, _ in item.namespaces)
            prefixes.extend(attribute.name.prefix for attribute in item.attributes)
            pending.extend(item.content)
    return prefixes

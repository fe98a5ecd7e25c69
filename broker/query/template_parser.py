"""Templates: what follows `return`, and the constant element around a query."""

import re
from collections.abc import Mapping

from broker.errors import QueryCostError
from broker.names import XML_NAMESPACE, ExpandedName
from broker.query.condition_parser import ConditionParser
from broker.query.literal_parser import line_ends
from broker.query.path_parser import InternedSteps, Place
from broker.query.syntax import (
    ConstantAttribute,
    ConstantElement,
    ConstantName,
    Count,
    Embedded,
    Path,
    Span,
    StringOf,
    TemplateItem,
)
from broker.query.tokens import SPACE

_TEXT = re.compile(r"[^<{}]++")
_XMLNS = "http://www.w3.org/2000/xmlns/"


class TemplateParser(ConditionParser):
    """Parses constant elements, their attributes and the `{…}` in them."""

    def _parse_template(self) -> tuple[TemplateItem, ...]:
        """Template ::= (Element | "{" Embedded "}")+ | Embedded"""
        self.skip()
        if not self.text.startswith(("<", "{"), self.pos):
            return (self._parse_embedded(),)
        items: list[TemplateItem] = []
        while True:
            self.skip()
            if self.text.startswith("<", self.pos) and not self.text.startswith("</", self.pos):
                items.append(self._parse_element(depth=1))
            elif self.text.startswith("{", self.pos):
                items.append(self._parse_braces())
            else:
                return tuple(items)

    def _parse_braces(self) -> Embedded:
        """Braces ::= "{" Embedded "}" """
        self.pos += 1
        embedded = self._parse_embedded()
        if not self.accept("}"):
            self.unexpected_operator("`}`")
        return embedded

    def _parse_embedded(self) -> Embedded:
        """Embedded ::= "$" name RelPath? | "count(" … ")" | "string(" … ")" """
        self.skip()
        start = self.pos
        function = self.function_at(start)
        value: Path | Count | StringOf
        if function == "count":
            value = Count(self._parse_argument(Place.RETURN), (start, self.pos))
        elif function == "string":
            value = StringOf(self._parse_argument(Place.RETURN), (start, self.pos))
        elif self.text.startswith("$", start):
            value = self._parse_variable_path(Place.RETURN)
        else:
            help = None
            if self.text.startswith(('"', "'", "/"), start) or self.word_at(start):
                help = "{…} holds a path from a variable, as in {$v/title}"
            self.unexpected_operand("a variable", "`count()`", "`string()`", help=help)
        return Embedded(value, (start, self.pos), self.text[start : self.pos])

    # Elements

    def _parse_element(self, depth: int) -> ConstantElement:
        """Element ::= "<" QName Attribute* ("/>" | ">" Content "</" QName ">")"""
        start = self.pos
        if depth > self.limits.max_template_depth:
            raise QueryCostError(
                "query-template-too-deep",
                f"constant elements are nested more than {self.limits.max_template_depth} deep",
                source=self.text,
                span=(start, start + 1),
                help="the limit is the setting query.max_template_depth",
            )
        scope = self._save_namespaces()
        tag = self._parse_open_tag()
        content: tuple[TemplateItem, ...] = ()
        if not self.text.startswith("/>", self.pos):
            self.pos += 1
            content = self._parse_content(depth)
            self._parse_close_tag(tag.name.lexical, start)
        else:
            self.pos += 2
        self._restore_namespaces(scope)
        span = (start, self.pos)
        return ConstantElement(tag.name, tag.namespaces, tag.attributes, content, span)

    def _parse_open_tag(self) -> ConstantElement:
        """The start of an element up to its `>` or `/>`, which is left to be read."""
        start = self.pos
        self.pos += 1
        if self.word_at(self.pos) is None:
            self.pos = start
            if self.text.startswith(("<!", "<?"), start):
                self.unexpected_operand("a tag")
            self.pos += 1
            found, span = self.found_at(self.pos)
            self.fail_syntax(f"expected the name of a tag, found {found}", span, found=found)
        name_start = self.pos
        prefix, local = self._parse_qname("the name of a tag")
        namespaces: dict[str, str] = {}
        attributes: list[tuple[str, str, tuple[str | Embedded, ...], Span]] = []
        while True:
            before = self.pos
            self._skip_tag_space()
            if self.text.startswith((">", "/>"), self.pos):
                break
            if self.word_at(self.pos) is None or before == self.pos:
                found, span = self.found_at(self.pos)
                wanted = "white space" if self.word_at(self.pos) else "an attribute"
                self.fail_syntax(
                    f"expected {wanted} or the end of the tag, found {found}",
                    span,
                    found=found,
                    expected=("an attribute", "`>`", "`/>`"),
                )
            at = self.pos
            attribute_prefix, attribute_local = self._parse_qname("the name of an attribute")
            name_end = self.pos
            self._skip_tag_space()
            if not self.text.startswith("=", self.pos):
                self.unexpected_operator("`=`")
            self.pos += 1
            self._skip_tag_space()
            parts = self._parse_attribute_value()
            if attribute_prefix == "xmlns" or (attribute_prefix, attribute_local) == ("", "xmlns"):
                declared = attribute_local if attribute_prefix else ""
                self._declare_in_tag(declared, parts, namespaces, attributes, (at, name_end))
            else:
                attributes.append((attribute_prefix, attribute_local, parts, (at, self.pos)))
        name = self._constant_name(prefix, local, name_start, is_attribute=False)
        made = tuple(
            ConstantAttribute(self._constant_name(p, n, span[0], is_attribute=True), parts, span)
            for p, n, parts, span in attributes
        )
        self._refuse_repeated_attribute(made)
        return ConstantElement(name, tuple(sorted(namespaces.items())), made, (), (start, self.pos))

    def _skip_tag_space(self) -> None:
        """White space in a tag; there are no comments there."""
        match = SPACE.match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()

    def _constant_name(
        self, prefix: str, local: str, start: int, *, is_attribute: bool
    ) -> ConstantName:
        if prefix:
            return ConstantName(prefix, self._resolve_prefix(prefix, start), local)
        return ConstantName("", "" if is_attribute else self.default_namespace, local)

    def _refuse_repeated_attribute(self, attributes: tuple[ConstantAttribute, ...]) -> None:
        seen: set[ExpandedName] = set()
        for attribute in attributes:
            name = ExpandedName(attribute.name.namespace, attribute.name.local)
            if name in seen:
                self.fail_scope(
                    "duplicate-attribute",
                    f"the attribute `{attribute.name.lexical}` is there twice",
                    attribute.span,
                )
            seen.add(name)

    def _parse_close_tag(self, name: str, opened: int) -> None:
        """The end of the element that began at `opened`; the cursor is at `</`."""
        start = self.pos
        self.pos += 2
        if self.word_at(self.pos) is not None:
            prefix, local = self._parse_qname("the name of a tag")
            if (f"{prefix}:{local}" if prefix else local) == name:
                self._skip_tag_space()
                if not self.text.startswith(">", self.pos):
                    self.unexpected_operator("`>`")
                self.pos += 1
                return
        line = self.text.count("\n", 0, opened) + 1
        end = self.pos + self.text.startswith(">", self.pos)
        found = self.text[start:end]
        self.fail_syntax(
            f"`<{name}>` of line {line} is not closed by `{found}`",
            (start, end),
            found=f"`{found}`",
            expected=(f"`</{name}>`",),
        )

    def _parse_content(self, depth: int) -> tuple[TemplateItem, ...]:
        """Content ::= (text | "{{" | "}}" | Braces | Element)*; stops at the close tag."""
        items: list[TemplateItem] = []
        text = self.text
        opened = self.pos
        pieces: list[str] = []
        is_boundary_space = True

        def end_text() -> None:
            nonlocal is_boundary_space
            # XQuery's boundary-space strip: white space alone between tags and braces is dropped.
            if pieces and not is_boundary_space:
                items.append("".join(pieces))
            pieces.clear()
            is_boundary_space = True

        while True:
            match = _TEXT.match(text, self.pos)
            if match is not None:
                raw = match.group()
                is_boundary_space = is_boundary_space and not raw.strip(" \t\r\n")
                pieces.append(self._decode(raw, self.pos, line_ends))
                self.pos = match.end()
            elif text.startswith(("{{", "}}"), self.pos):
                pieces.append(text[self.pos])
                is_boundary_space = False
                self.pos += 2
            elif text.startswith("</", self.pos):
                end_text()
                return tuple(items)
            elif text.startswith("{", self.pos):
                end_text()
                items.append(self._parse_braces())
            elif text.startswith("<", self.pos):
                end_text()
                items.append(self._parse_element(depth + 1))
            elif text.startswith("}", self.pos):
                span = (self.pos, self.pos + 1)
                self.fail_syntax("a `}` without its `{`", span, help="write }} for the character")
            else:
                tag = text[text.rfind("<", 0, opened) : opened]
                self.fail_syntax(
                    f"`{tag}` is not closed", (self.pos, self.pos + 1), found="the end of the query"
                )

    def _parse_attribute_value(self) -> tuple[str | Embedded, ...]:
        """AttributeValue ::= quote (text | "{{" | "}}" | Braces | doubled quote)* quote"""
        text = self.text
        start = self.pos
        quote = text[start : start + 1]
        if quote not in ('"', "'") or not quote:
            self.unexpected_operand("a quoted value")
        self.pos += 1
        parts: list[str | Embedded] = []
        literal: list[str] = []

        def end_literal() -> None:
            if literal:
                parts.append("".join(literal))
                literal.clear()

        plain = re.compile(rf"[^<{{}}{quote}]++")
        while True:
            match = plain.match(text, self.pos)
            if match is not None:
                literal.append(self._decode(match.group(), self.pos, _attribute_space))
                self.pos = match.end()
            elif text.startswith(("{{", "}}", quote * 2), self.pos):
                literal.append(text[self.pos])
                self.pos += 2
            elif text.startswith(quote, self.pos):
                self.pos += 1
                end_literal()
                return tuple(parts)
            elif text.startswith("{", self.pos):
                end_literal()
                parts.append(self._parse_braces())
            else:
                found, span = self.found_at(self.pos)
                if self.pos >= len(text):
                    span = (start, start + 1)
                self.fail_syntax(
                    f"the attribute value is not closed: found {found}",
                    span,
                    found=found,
                    expected=(f"a closing {quote}",),
                )

    # Namespaces declared in tags

    def _declare_in_tag(
        self,
        prefix: str,
        parts: tuple[str | Embedded, ...],
        declared: dict[str, str],
        attributes: list[tuple[str, str, tuple[str | Embedded, ...], Span]],
        span: Span,
    ) -> None:
        uri = "".join(part for part in parts if isinstance(part, str))
        if any(isinstance(part, Embedded) for part in parts):
            self.fail_outside("a namespace that is computed", span)
        if any(isinstance(part, Embedded) for _, _, parts, _ in attributes for part in parts):
            # It would change what the names in the attributes before it mean.
            self.fail_outside(
                "a namespace declaration after an attribute with {…}",
                span,
                help="put the declarations first in the tag",
            )
        if prefix in declared:
            self.fail_scope("duplicate-prefix", "the namespace is declared twice", span)
        declared[prefix] = uri
        self._declare(prefix, uri, span)

    def _declare(self, prefix: str, uri: str, span: Span) -> None:
        """Bring a prefix into scope; "" is the default namespace of elements."""
        if prefix in ("xml", "xmlns") or uri in (XML_NAMESPACE, _XMLNS):
            self.fail_scope("reserved-prefix", "`xml` and `xmlns` can't be declared", span)
        if prefix:
            if not uri:
                self.fail_scope("empty-namespace", f"the prefix `{prefix}` needs a namespace", span)
            self.namespaces = {**self.namespaces, prefix: uri}
        else:
            self.default_namespace = uri
            self.interned = InternedSteps(uri)

    def _save_namespaces(self) -> tuple[Mapping[str, str], str]:
        return self.namespaces, self.default_namespace

    def _restore_namespaces(self, scope: tuple[Mapping[str, str], str]) -> None:
        if scope[1] != self.default_namespace:
            self.interned = InternedSteps(scope[1])
        self.namespaces = scope[0]
        self.default_namespace = scope[1]


def _attribute_space(text: str) -> str:
    """Attribute values have spaces for tabs and line ends, as in XML."""
    return line_ends(text).translate({9: " ", 10: " "})

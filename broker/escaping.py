"""Text as XML has it, in UTF-8."""

import re

_SPECIAL_IN_ATTRIBUTES = re.compile('[&<"\t\n\r]')


def escape_text(text: str) -> bytes:
    """Text as it stands between tags."""
    if "&" in text or "<" in text or ">" in text or "\r" in text:
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        text = text.replace("\r", "&#13;")
    return text.encode("utf-8")


def escape_attribute(text: str) -> bytes:
    """Text as it stands in an attribute's quotes."""
    if _SPECIAL_IN_ATTRIBUTES.search(text):
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
        text = text.replace("\t", "&#9;").replace("\n", "&#10;").replace("\r", "&#13;")
    return text.encode("utf-8")

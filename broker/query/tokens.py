"""The lexical rules: what a name, a number, a literal and white space look like."""

import re

_NAME_START = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d"
    "\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME_CHAR = _NAME_START + "\\-.0-9\u00b7\u0300-\u036f\u203f\u2040"

NCNAME_PATTERN = f"[{_NAME_START}][{_NAME_CHAR}]*+"

NCNAME = re.compile(NCNAME_PATTERN)
"""A name without a colon (XML Namespaces, NCName)."""

SPACE = re.compile(r"[ \t\r\n]*+")
"""White space between tokens; comments `(: … :)` are skipped by the parser."""

NUMBER = re.compile(r"-?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)")
"""A literal number. A sign belongs to it, since the language has no arithmetic."""

NUMBER_TAIL = re.compile(f"[{_NAME_CHAR}]++")
"""What may not follow a number without a space."""

STRING = re.compile(r""""(?:[^"]|"")*+"|'(?:[^']|'')*+'""")
"""A literal string; a doubled quote stands for one."""

OPERATOR = re.compile(r"!=|<=|>=|=(?!>)|<(?!<)|>(?!>)")
"""A comparison, but not `<<`, `>>` and `=>`, which mean other things in XQuery."""

_BARE_STEP = rf"//?+(?:{NCNAME_PATTERN}|\*)"

PLAIN_STEP = re.compile(_BARE_STEP)
"""A separator and a name or `*`, in a run of plain steps."""

PLAIN_STEPS = re.compile(rf"(?:{_BARE_STEP}(?![{_NAME_CHAR}:(#{{ \t\r\n\[]))*+")
"""A run of steps, each with nothing after it that could change what it means.

Nearly all steps of nearly all queries are in such a run, so the parser takes it as a whole.
"""

FUNCTION_NAME = re.compile(rf"((?:{NCNAME_PATTERN}:)?{NCNAME_PATTERN})[ \t\r\n]*+\((?!:)")
"""The name of a function and its parenthesis."""

BINDING_EXPRESSION = re.compile(r"(?:some|every|for|let)[ \t\r\n]++\$")
"""The start of an expression that binds a variable, where a path would be expected."""

ENTITY = re.compile(r"&(?:#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6})|(lt|gt|amp|quot|apos));")
"""A character or predefined entity reference in a FLWR query's literals and templates."""

PREDEFINED_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}

ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that no XML document can hold, and so no query needs."""

WORD = re.compile(rf"{NCNAME_PATTERN}|[0-9]++|[^ \t\r\n]")
"""What an error message shows as the thing it found."""

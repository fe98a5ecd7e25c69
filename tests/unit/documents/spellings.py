"""Messages written in all the ways that XML allows for the same thing."""

from random import Random

_NAMES = ["a", "b", "é", "p:a", "p:b", "x-y.z"]
_TEXTS = [
    "",
    "1",
    "x y",
    "it's",
    'say "it"',
    "é€𝄞",
    "a &amp; b",
    "&#60;&#x3e;",
    "\n",
    "a > b",
    "\r\n",
]
_VALUES = ["", "1", "v &lt; w", "tab\there", "line\nend", "é", "&#10;&quot;", "it's", "a>b", "a=b"]
_PROLOGS = [
    "",
    "",
    '<?xml version="1.0"?>',
    "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>\n",
    "<!-- one -->\n<!-- - two -->",
    "\n ",
]


def spelled_message(rng: Random) -> bytes:
    """A message with few names and many spellings, some of which are not scanned."""
    plain = rng.random() < 0.7

    def space(least: str = "") -> str:
        return least if rng.random() < 0.9 else rng.choice([" ", "  ", "\n", "\t"])

    def attribute(name: str, value: str) -> str:
        quote = "'" if '"' in value or (rng.random() < 0.1 and "'" not in value) else '"'
        return f"{space(' ')}{name}{space()}={space()}{quote}{value}{quote}"

    def element(depth: int, *, is_root: bool = False) -> str:
        name = rng.choice(_NAMES)
        keys = [key for key in ("id", "k", "p:id", "xml:lang") if rng.random() < 0.2]
        attributes = [attribute(key, rng.choice(_VALUES[:4] if plain else _VALUES)) for key in keys]
        if is_root:
            attributes.append(attribute("xmlns:p", "urn:p"))
        elif rng.random() < 0.06:
            attributes.append(attribute("xmlns:p", rng.choice(["urn:q", "urn:p"])))
        if rng.random() < 0.08:
            attributes.append(attribute("xmlns", rng.choice(["urn:q", "urn:p", ""])))
        rng.shuffle(attributes)
        tag = f"{name}{''.join(attributes)}{space()}"
        if rng.random() < 0.2:
            return f"<{tag}/>"
        content = rng.choice(_TEXTS[:8] if plain else _TEXTS)
        while depth < 5 and rng.random() < 0.6:
            content += element(depth + 1)
            content += rng.choice(_TEXTS[:8] if plain else _TEXTS)
            if not plain and rng.random() < 0.1:
                content += rng.choice(["<!-- c -->", "<?p i?>", "<![CDATA[<x>]]>"])
        return f"<{tag}>{content}</{name}{space()}>"

    prolog = rng.choice(_PROLOGS)
    end = rng.choice(["", "", "\n", " \n", "<!-- after -->" if not plain else ""])
    return f"{prolog}{element(1, is_root=True)}{end}".encode()

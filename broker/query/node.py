"""The decorator that makes the classes of the syntax tree."""

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


class KeepsHash:
    """A base for nodes that are keys: their hash, which goes through all below, is made once."""

    __slots__ = ("_hash",)
    _hash: int

    def keep_hash(self, made: int) -> None:
        """Take the hash that it will have, from someone who knows it."""
        object.__setattr__(self, "_hash", made)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def node(cls: type[T]) -> type[T]:
    """A frozen dataclass with slots whose constructor costs half of the generated one.

    The constructor of a frozen dataclass goes through `object.__setattr__` for each field. This
    one sets the slots directly; nodes are as immutable, and queries come by the million.
    """
    made = dataclass(frozen=True, slots=True)(cls)
    scope: dict[str, Any] = {}
    parameters = ["self"]
    body = []
    for each in fields(made):  # type: ignore[arg-type]  # a dataclass by now
        scope[f"set_{each.name}"] = made.__dict__[each.name].__set__
        default = ""
        if each.default is not MISSING:
            scope[f"default_{each.name}"] = each.default
            default = f"=default_{each.name}"
        parameters.append(each.name + default)
        body.append(f"    set_{each.name}(self, {each.name})")
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(body), scope)
    made.__init__ = scope["__init__"]  # type: ignore[method-assign]
    if issubclass(made, KeepsHash):
        _keep_hash(made)
    return made


def _keep_hash(made: type[KeepsHash]) -> None:
    make = made.__hash__

    def kept(self: KeepsHash) -> int:
        try:
            return self._hash
        except AttributeError:
            self.keep_hash(make(self))
            return self._hash

    made.__hash__ = kept  # type: ignore[method-assign,assignment]

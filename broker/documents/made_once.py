"""Attributes that are made when they are first asked for, and then are there."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class made_once(Generic[T]):  # noqa: N801 - a decorator
    """A property whose value is kept in its object, where it is found without a call.

    `functools.cached_property` is the same with a lock, which takes longer than most of what is
    made here; a message belongs to one thread.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__
        self._name = make.__name__

    @overload
    def __get__(self, instance: None, owner: type) -> "made_once[T]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> "T | made_once[T]":
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._make(instance)
        return value

"""Data classes and named tuples for a program that starts often: the standard library's, cheaper.

A decorator of the standard library compiles five functions for each class when it is loaded, and
loads `inspect` before: half of what a snapshot of a small log would cost. Here a class gets its
slots at once, its `__init__` when the first instance is made, and shares everything else. A type
checker sees the standard library's own names, and by it alone a frozen class is held to be frozen.
"""

# ruff: noqa: ANN401 - these functions take whatever a class holds

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, without loading it

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - for others to import
    from dataclasses import field as field  # noqa: PLC0414
    from dataclasses import replace as replace  # noqa: PLC0414
    from typing import Any
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414
else:
    from _collections import _tuplegetter  # what `collections.namedtuple` makes fields of

    _NOT_GIVEN = object()

    class _Made:
        """A default that is made anew for each instance."""

        __slots__ = ("make",)

        def __init__(self, make: Callable[[], Any]) -> None:
            self.make = make

    def field(*, default_factory: Callable[[], Any]) -> Any:
        """A field whose default is made by `default_factory` for each instance."""
        return _Made(default_factory)

    def replace(one: Any, /, **changes: Any) -> Any:
        """A new instance with the values of `one`, but for `changes`."""
        for name in one.__dataclass_names__:
            if name not in changes:
                changes[name] = getattr(one, name)
        return type(one)(**changes)

    def dataclass(
        *, slots: bool, frozen: bool = False, kw_only: bool = False, eq: bool = True
    ) -> Callable[[type], type]:
        """Give a class slots of its annotated names, and an `__init__` that fills them.

        `slots` must be true: a class without them is for the standard library to make.
        """
        assert slots  # noqa: S101 - a programmer's error

        def decorate(cls: type) -> type:
            space = dict(cls.__dict__)
            names = tuple(
                name
                for name, kind in space.get("__annotations__", {}).items()
                if not kind.startswith("ClassVar")
            )
            defaults = {name: space.pop(name) for name in names if name in space}
            for name in ("__dict__", "__weakref__"):
                space.pop(name, None)
            space |= {"__slots__": names, "__dataclass_names__": names, "__repr__": _repr}
            if eq:
                space |= {"__eq__": _eq, "__hash__": _hash if frozen else None}

            def first_init(self: Any, /, *args: Any, **values: Any) -> None:
                made.__init__ = _init_of(names, defaults, kw_only=kw_only)
                made.__init__(self, *args, **values)

            space["__init__"] = first_init
            made = type(cls)(cls.__name__, cls.__bases__, space)
            return made

        return decorate

    def _init_of(
        names: Sequence[str], defaults: dict[str, Any], *, kw_only: bool
    ) -> Callable[..., None]:
        """The function that fills the slots `names`."""
        space: dict[str, Any] = {"_NOT_GIVEN": _NOT_GIVEN}
        takes, fills = ["self", *("*" if kw_only and names else "")], []
        for name in names:
            value = name
            if name not in defaults:
                takes.append(name)
            elif isinstance(defaults[name], _Made):
                space[f"_make_{name}"] = defaults[name].make
                takes.append(f"{name}=_NOT_GIVEN")
                value = f"_make_{name}() if {name} is _NOT_GIVEN else {name}"
            else:
                space[f"_default_{name}"] = defaults[name]
                takes.append(f"{name}=_default_{name}")
            fills.append(f"self.{name} = {value}")
        body = "\n ".join(fills or ["pass"])
        exec(f"def __init__({', '.join(takes)}):\n {body}", space)  # noqa: S102 - our own names
        return space["__init__"]

    class _Names(type):
        """Makes a tuple with names of a class whose base is `NamedTuple`."""

        def __new__(cls, name: str, _bases: tuple[type, ...], space: dict[str, Any]) -> type:
            names = tuple(space.get("__annotations__", ()))
            defaults = {field: space.pop(field) for field in names if field in space}
            space |= {field: _tuplegetter(at, "") for at, field in enumerate(names)}
            space |= {"__slots__": (), "_fields": names, "_field_defaults": defaults}
            space |= {"_replace": _replaced, "__getnewargs__": _as_tuple}
            space |= {"__repr__": _repr_of_names, "_asdict": _as_dict}

            def first_new(kind: type, /, *args: Any, **values: Any) -> Any:
                made.__new__ = staticmethod(_new_of(names, defaults))
                return made.__new__(kind, *args, **values)

            space["__new__"] = first_new
            made = type(name, (tuple,), space)
            return made

    NamedTuple = type.__new__(_Names, "NamedTuple", (), {})

    def _new_of(names: Sequence[str], defaults: dict[str, Any]) -> Callable[..., Any]:
        """The function that makes a tuple of the fields `names`."""
        takes = [f"{name}=_default_{name}" if name in defaults else name for name in names]
        space = {"_new": tuple.__new__} | {f"_default_{n}": value for n, value in defaults.items()}
        values = "".join(f"{name}, " for name in names)
        return eval(f"lambda _cls, {', '.join(takes)}: _new(_cls, ({values}))", space)  # noqa: S307 - our own names

    def _as_tuple(self: Any) -> tuple[Any, ...]:
        return tuple(self)

    def _as_dict(self: Any) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def _replaced(self: Any, /, **changes: Any) -> Any:
        made = tuple.__new__(type(self), map(changes.pop, self._fields, self))
        if changes:
            raise TypeError(f"no such fields: {', '.join(changes)}")  # noqa: EM102, TRY003
        return made

    def _repr_of_names(self: Any) -> str:
        shown = ", ".join(f"{n}={v!r}" for n, v in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({shown})"

    def _values(one: Any) -> tuple[Any, ...]:
        return tuple(getattr(one, name) for name in one.__dataclass_names__)

    def _eq(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _values(self) == _values(other)

    def _hash(self: Any) -> int:
        return hash(_values(self))

    def _repr(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_names__)
        return f"{type(self).__qualname__}({shown})"

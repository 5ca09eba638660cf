from collections.abc import Iterator
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")

class SortedDict(dict[_K, _V]):
    def irange(
        self,
        minimum: _K | None = None,
        maximum: _K | None = None,
        inclusive: tuple[bool, bool] = (True, True),
        reverse: bool = False,
    ) -> Iterator[_K]: ...
    def bisect_left(self, value: _K) -> int: ...
    def peekitem(self, index: int = -1) -> tuple[_K, _V]: ...

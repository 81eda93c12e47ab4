"""A sum whose rounding does not depend on the order in which its parts arrive."""

from typing import Any, Generic, TypeVar

T = TypeVar("T")


class TreeSum(Generic[T]):
    """Parts added along a binary tree over their positions, each as soon as its neighbour is there.

    Of parts that arrive in order, only about log2 of their number wait at any time.
    """

    def __init__(self, leaves: int) -> None:
        self._leaves = leaves
        self._waiting: dict[tuple[int, int], Any] = {}
        self.total: T | None = None  # until the last part is in

    def put(self, position: int, part: T) -> None:
        """Add the part that stands at this position."""
        value: Any = part
        width, level = self._leaves, 0
        while width > 1:
            neighbour = position ^ 1
            if neighbour < width:
                if (level, neighbour) not in self._waiting:
                    self._waiting[level, position] = value
                    return
                other = self._waiting.pop((level, neighbour))
                value = other + value if neighbour < position else value + other
            position, width, level = position // 2, (width + 1) // 2, level + 1
        self.total = value

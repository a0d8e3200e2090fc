"""How a capture ends early."""

from __future__ import annotations


class Abort(BaseException):
    """The program did something the interpreter does not model; nothing has been changed, so the call runs eagerly.

    A BaseException, so that no `except Exception` in user or framework code swallows it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.where: str | None = None

    def __str__(self) -> str:
        return f"{self.reason} ({self.where})" if self.where else self.reason


class Raised(Exception):
    """An exception of the *interpreted* program on its way to a handler."""

    def __init__(self, value: BaseException) -> None:
        super().__init__(value)
        self.value = value

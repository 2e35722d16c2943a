"""Read a model from JSON text in one go where that is as strict as reading it step by step."""

from collections.abc import Callable
from typing import TypeVar

import pydantic

from reliability import canonical

Model = TypeVar("Model", bound=pydantic.BaseModel)


def read_at_once(model: type[Model], text: str | bytes, quotes_of: Callable[[Model], int | None]) -> Model | None:
    """
    Parse and check in one go, five times as fast; None for whatever has to be looked at closely.

    The parser lets a name through that comes twice, which is quotation marks too many: `quotes_of` says how many the
    names and texts of what was read have, or None to have a closer look.
    """
    if not isinstance(text, bytes):
        return None
    try:
        read = model.model_validate_json(text)
    except pydantic.ValidationError:
        return None
    quotes = quotes_of(read)
    return read if quotes is not None and canonical.count_quotes(text) == quotes else None

"""What a scenario finds: tables, charts, goals and remarks. Written to `results.json` and read back for the page."""

from collections.abc import Sequence
from typing import Self

import pydantic

from benchmarks import arithmetic

Cell = str | int | float | None


class _Value(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


class Goal(_Value):
    """Hold one promise about speed or memory; `measured` and `met` are None where it could not be measured."""

    name: str
    #: What was promised, in words with its number.
    goal: str
    measured: float | None
    unit: str
    met: bool | None

    @classmethod
    def at_least(cls, name: str, least: float, unit: str, measured: float | None) -> Self:
        """Make a goal that more is better for."""
        met = None if measured is None else measured >= least
        return cls(name=name, goal=f"at least {least:g} {unit}", measured=_shown(measured), unit=unit, met=met)

    @classmethod
    def at_most(cls, name: str, most: float, unit: str, measured: float | None) -> Self:
        """Make a goal that less is better for."""
        met = None if measured is None else measured <= most
        return cls(name=name, goal=f"at most {most:g} {unit}", measured=_shown(measured), unit=unit, met=met)

    @classmethod
    def below(cls, name: str, limit: float, unit: str, measured: float | None) -> Self:
        """Make a goal that the limit itself does not meet."""
        met = None if measured is None else measured < limit
        return cls(name=name, goal=f"under {limit:g} {unit}", measured=_shown(measured), unit=unit, met=met)


class Table(_Value):
    """Hold rows under columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Self:
        """
        Make a table, its numbers with the digits that are published.

        Raises:
            ValueError: if a row has not one cell for each column.

        """
        for row in rows:
            if len(row) != len(columns):
                raise ValueError(f"expected {len(columns)} cells in each row of {title!r}, got: {len(row)}")
        cells = tuple(tuple(_shown_cell(cell) for cell in row) for row in rows)
        return cls(title=title, columns=tuple(columns), rows=cells)


class Chart(_Value):
    """Hold labelled bars of one unit."""

    title: str
    unit: str
    bars: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, title: str, unit: str, bars: Sequence[tuple[str, float]]) -> Self:
        """Make a chart, its numbers with the digits that are published."""
        return cls(title=title, unit=unit, bars=tuple((label, arithmetic.shown(value)) for label, value in bars))


class Findings(_Value):
    """Hold everything one scenario found."""

    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    goals: tuple[Goal, ...] = ()
    remarks: tuple[str, ...] = ()


def _shown(value: float | None) -> float | None:
    return None if value is None else arithmetic.shown(value)


def _shown_cell(cell: Cell) -> Cell:
    return arithmetic.shown(cell) if isinstance(cell, float) else cell

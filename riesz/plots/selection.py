"""Selects and renames the parameters of several fits, so that an effect with two names has one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from riesz.errors import RieszError, listing, nearest


def check_names(names: object, fits: int) -> None:
    """Check that there is one name per fit."""
    if names is None:
        return
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) != fits:
        raise RieszError(f"names={names!r}: expected a list with one name per fit, {fits} in all.")


def select(
    tables: Sequence[pd.DataFrame], keep: Sequence[str] | None, rename: Mapping[str, str] | None
) -> list[pd.DataFrame]:
    """Rename the rows of tables, and keep the requested ones.

    Parameters
    ----------
    tables : sequence of pandas.DataFrame
        One per fit, with its parameters in the index.
    keep : sequence of str or None
        Old or new names; None keeps all.
    rename : mapping of str to str or None
        Old names to new names.

    Returns
    -------
    list of pandas.DataFrame
        The rows that are kept, in the same order.
    """
    if isinstance(keep, str):
        raise RieszError(f"keep={keep!r}: expected a list of names, such as keep=[{keep!r}].")
    if keep is not None and (not isinstance(keep, Iterable) or not list(keep)):
        raise RieszError(f"keep={keep!r}: expected a list with at least one name, or None for all.")
    if rename is not None and not isinstance(rename, Mapping):
        raise RieszError(f"rename={rename!r}: expected a mapping from old names to new names, such as {{'a': 'ATE'}}.")
    new = {} if rename is None else dict(rename)
    old = list(dict.fromkeys(str(name) for table in tables for name in table.index))
    shown = list(dict.fromkeys([*old, *new.values()]))
    for argument, requested, available in (("rename", list(new), old), ("keep", keep or [], shown)):
        for name in requested:
            if name not in available:
                raise RieszError(
                    f"{argument} names {name!r}, which no fit has.{nearest(str(name), available)} The parameters are "
                    f"{listing(available)}."
                )
    chosen = []
    for table in tables:
        before = [str(name) for name in table.index]
        after = [new.get(name, name) for name in before]
        repeated = [name for name in dict.fromkeys(after) if after.count(name) > 1]
        if repeated and new:
            raise RieszError(
                f"rename gives two parameters of one fit the name {listing(repeated)}; expected different names."
            )
        kept = [keep is None or bool({a, b} & set(keep)) for a, b in zip(before, after, strict=True)]
        chosen.append(table.set_axis(after, axis=0)[kept])
    return chosen

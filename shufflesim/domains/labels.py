"""Labels of any type as pandas categoricals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._checks import plain

if TYPE_CHECKING:
    import pandas as pd


def distinct(domain: Any) -> pd.Index[Any]:
    """A public list of categories."""
    import pandas as pd

    labels = pd.Index(domain)
    if labels.hasnans or labels.has_duplicates:
        raise ValueError(f"the domain must list distinct labels without missing ones, got {plain(list(labels)[:5])}...")
    if len(labels) < 2:
        raise ValueError(f"the domain must have at least 2 categories, got {plain(list(labels))}")
    return labels


def encode(series: pd.Series[Any], labels: pd.Index[Any], offset: int = 0) -> pd.Series[Any]:
    """A column as a categorical; `offset` is the position of its first value in the whole data, for messages."""
    import pandas as pd

    refuse_missing_labels(series, offset)
    if isinstance(series.dtype, pd.CategoricalDtype):
        codes = labels.get_indexer(series.cat.categories)[series.cat.codes]
    else:
        codes = labels.get_indexer(pd.Index(series))
    if codes.min() < 0:
        bad = int(codes.argmin())
        raise ValueError(f"every value must be in the domain, got {plain(series.iloc[bad])!r} at position {offset + bad}")
    return pd.Series(pd.Categorical.from_codes(codes, categories=labels), index=series.index, name=series.name)


def refuse_missing_labels(series: pd.Series[Any], offset: int = 0) -> None:
    """Missing values of a column that must have none."""
    missing = series.isna()
    if missing.any():
        first = offset + int(missing.argmax())
        raise ValueError(f"the column must have no missing values, got {int(missing.sum())}, the first at position {first}")


def in_order(labels: Any) -> list[Any]:
    """Labels of one type, sorted."""
    try:
        return sorted(labels)
    except TypeError:
        raise ValueError(f"the column must have labels of one type, got {sorted({type(x).__name__ for x in labels})}") from None

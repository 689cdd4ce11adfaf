"""The intermediary: drops who sent what, and permutes all messages uniformly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ._checks import check_size
from .domains import Array


def well_formed(messages: Array, alphabet: int | None) -> Array:
    """Which messages are finite numbers, or have entries in 0..alphabet-1 (None: any), shape (number of messages,)."""
    flat = messages.reshape(messages.shape[0], math.prod(messages.shape[1:]))
    if messages.dtype.kind == "f":
        return np.logical_and.reduce(np.isfinite(flat), axis=1)
    if alphabet is None:
        return np.ones(messages.shape[0], dtype=bool)
    return np.logical_and.reduce((flat >= 0) & (flat < alphabet), axis=1)


@dataclass(frozen=True, eq=False)
class Encoded:
    """What the users hand to the shuffler.

    Attributes
    ----------
    messages : ndarray, first axis messages
        User by user, in the order of the users.
    sizes : ndarray of int, shape (n,), or None
        Number of messages of each user; None means one each.
    """

    messages: Array
    sizes: Array | None = None


@dataclass(frozen=True)
class Shuffler:
    """A trusted shuffler.

    Parameters
    ----------
    minimum_batch : int
        Number of users without whom nothing is released; >= 1. Deployed shufflers have such a threshold, since few users
        hide nobody (Bittau et al., "Prochlo: strong privacy for analytics in the crowd", SOSP 2017).
    shards : int
        Machines that share the work; >= 1. Each message goes to a random one, each permutes what it has got, and their outputs
        follow one another: a uniform permutation of all messages, whatever their number (docs/soundness.md).

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    The permutation is uniform over all orders of the messages that it is given. An aggregate that is a sum over messages is
    the same for every order, so a run that hands over its messages in batches gives the analyzer the same view as one
    uniform permutation of everything.

    Examples
    --------
    >>> shuffled = Shuffler().shuffle(Encoded(np.array([1, 2, 3])), np.random.default_rng(0))
    >>> sorted(shuffled.tolist())
    [1, 2, 3]
    """

    minimum_batch: int = 1
    shards: int = 1

    def __post_init__(self) -> None:
        for name in ("minimum_batch", "shards"):
            object.__setattr__(self, name, check_size(name, getattr(self, name), low=1))

    def shuffle(self, encoded: Encoded, rng: np.random.Generator) -> Array:
        """All messages in a uniformly random order, without any trace of their senders.

        Parameters
        ----------
        encoded : Encoded
            Messages user by user.
        rng : numpy.random.Generator
            Source of the permutation.

        Returns
        -------
        ndarray
            A new array; the messages handed in are not changed.

        Raises
        ------
        ValueError
            If the messages are from fewer than `minimum_batch` users; without `sizes` every message is a user's.
        """
        self.admit(encoded.messages.shape[0] if encoded.sizes is None else len(encoded.sizes))
        return self.permute(encoded.messages, rng)

    def permute(self, messages: Array, rng: np.random.Generator) -> Array:
        """Any part of a batch in a uniformly random order, whatever its size: whether to release the batch is not asked."""
        number = messages.shape[0]
        if self.shards == 1:
            return messages[rng.permutation(number)]
        shard = rng.integers(0, self.shards, number)
        dealt = np.argsort(shard, kind="stable")
        parts = np.split(dealt, np.flatnonzero(np.diff(shard[dealt])) + 1)
        return messages[np.concatenate([rng.permutation(part) for part in parts])]

    def admit(self, number: int, what: str = "users") -> None:
        """Refuse a batch of fewer than `minimum_batch`."""
        if number < self.minimum_batch:
            rule = f"minimum_batch must be reached before anything is released, {self.minimum_batch}"
            raise ValueError(f"{rule}, got {number} {what}")

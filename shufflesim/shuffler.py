"""The intermediary: drops who sent what, and permutes all messages uniformly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .domains import Array


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


class Shuffler:
    """A trusted shuffler.

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
        """
        return encoded.messages[rng.permutation(encoded.messages.shape[0])]

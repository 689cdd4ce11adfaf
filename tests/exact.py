"""Exact laws of shuffled multisets by convolution, for small finite channels: what bounds are compared with."""

import itertools

import numpy as np


class Shuffled:
    """All data sets of n users of a finite channel, optionally with users who may be absent.

    `present` is the probability that another user sends her report, `sampled` that user 1 sends hers; the report of an absent
    user is a further outcome.
    """

    def __init__(self, law, n, present=1.0, sampled=1.0):
        law = np.asarray(law, dtype=float)
        self.inputs, self.n = law.shape[0], n
        self.others = self._with_empty(law, present)
        self.own = self._with_empty(law, sampled)

    @staticmethod
    def _with_empty(law, probability):
        return np.hstack([probability * law, np.full((law.shape[0], 1), 1 - probability)])

    def law_of_others(self, others):
        """Probability of each count vector (all but the last outcome), as an array with one axis an outcome."""
        k = self.others.shape[1] - 1
        total = np.zeros((self.n + 1,) * k)
        total[(0,) * k] = 1.0
        for x in others:
            total = self._add(total, self.others[x])
        return total

    def _add(self, total, row):
        added = total * row[-1]
        for axis, probability in enumerate(row[:-1]):
            added += probability * np.roll(total, 1, axis=axis)
        return added

    def views(self, others):
        """Law of the multiset for each input of user 1."""
        base = self.law_of_others(others)
        found = np.array([self._add(base, row).ravel() for row in self.own])
        return found[:, found.any(axis=0)]

    def data_sets(self):
        return itertools.combinations_with_replacement(range(self.inputs), self.n - 1)

    def delta(self, eps, homogeneous=False):
        """Largest divergence over data sets, pairs and directions, for an array of eps."""
        growth = np.exp(np.asarray(eps, dtype=float))
        worst = np.zeros(growth.shape)
        for others in self.data_sets():
            if homogeneous and len(set(others)) > 1:
                continue
            views = self.views(others)
            for first, second in itertools.permutations(views, 2):
                found = np.maximum(0.0, first - growth[:, None] * second).sum(axis=1)
                worst = np.maximum(worst, found)
        return worst

    def kinks(self, rng, number):
        """Some log likelihood ratios at which a curve of delta has a kink, >= 0."""
        ratios = []
        for others in self.data_sets():
            views = self.views(others)
            for first, second in itertools.permutations(views, 2):
                both = (first > 0) & (second > 0)
                ratios.append(np.log(first[both] / second[both]))
        found = np.unique(np.round(np.abs(np.concatenate(ratios)), 12))
        return rng.choice(found, size=min(number, found.size), replace=False)

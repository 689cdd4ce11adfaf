"""The conformance suite: anyone's randomizer or protocol against its own claims.

Statistical checks use fixed seeds and thresholds beyond `Z_LIMIT` standard errors or `FALSE_ALARM` per check: on a correct class
all of them together are estimated to fail with a probability below 1e-6 over the choice of the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from ..bounds import Claim, Crowd, delta
from ..bounds.claim import Value
from ..domains import Array, Domain
from ..protocol import Protocol
from ..protocols import SingleMessage
from ..randomizer import Randomizer
from ..shuffler import Shuffler
from .law import law_checks
from .report import Check, Report

# Standard errors (of a mean over repeats, itself estimated) beyond which a mean is called wrong.
Z_LIMIT = 7.0
# Repeats of a small simulation (fewer, but enough for a t-test, where there are very many values), and its users.
REPEATS = 400
REPEATS_WIDE = 50
WIDE = 10_000
USERS = 500
# Groups of values whose errors are summed, so that rare values have a nearly normal error too.
GROUPS = 8
# Least share of the exact variance that reports may claim on average: standard errors may be cautious, not bold.
STDERR_SHARE = 0.8
# Relative size of an error that counts as rounding where the stated variance is (nearly) 0.
ROUNDING = 1e-9
# n and eps at which the claimed bounds are compared with each other.
SIZES = (1, 3, 40)
EPSILONS = (0.0, 0.1, 0.5, 2.0)


def check_randomizer(randomizer: Randomizer, *, seed: int = 0) -> Report:
    """Check a local randomizer: bad input, sampler against law, declaration against law, estimator, additivity.

    Parameters
    ----------
    randomizer : Randomizer
        An instance of your class; small instances have an enumerable law and are checked more deeply.
    seed : int
        Of all random checks.

    Returns
    -------
    Report
        `.passed`, `.failures` and a printable table; a check that raises counts as failed.

    Raises
    ------
    ValueError
        If the argument is not a Randomizer.

    Examples
    --------
    >>> from shufflesim.mechanisms import GRR
    >>> check_randomizer(GRR(epsilon=1.0, d=3)).passed
    True
    """
    if not isinstance(randomizer, Randomizer):
        raise ValueError(f"randomizer must be a Randomizer, got {randomizer!r}")
    checks = [*law_checks(randomizer, np.random.default_rng([seed, 1]))]
    return Report(repr(randomizer), (*checks, *_run(SingleMessage(randomizer), seed)))


def check_protocol(protocol: Protocol, *, seed: int = 0) -> Report:
    """Check a protocol: bad input, order and additivity, estimator, costs, samplers and bounds against each other.

    Parameters
    ----------
    protocol : Protocol
        An instance of your class.
    seed : int
        Of all random checks.

    Returns
    -------
    Report
        `.passed`, `.failures` and a printable table; a check that raises counts as failed.

    Raises
    ------
    ValueError
        If the argument is not a Protocol.

    Examples
    --------
    >>> from shufflesim.protocols import BallsIntoBins
    >>> check_protocol(BallsIntoBins(d=4, dummies=2)).passed
    True
    """
    if not isinstance(protocol, Protocol):
        raise ValueError(f"protocol must be a Protocol, got {protocol!r}")
    return Report(protocol.name, tuple(_run(protocol, seed)))


def guarded(name: str, check: Callable[[], Check]) -> Check:
    """Run one check; an exception is a failure with its message."""
    try:
        return check()
    except Exception as error:  # whatever a user's class raises is a finding, not a crash
        return Check(name, False, f"{type(error).__name__}: {error}")


def _run(protocol: Protocol, seed: int) -> Iterator[Check]:
    rng = np.random.default_rng([seed, 2])
    yield guarded("bad input refused", lambda: _bad_input(protocol.domain))
    yield guarded("same seed, same messages", lambda: _reproducible(protocol, seed))
    yield guarded("order and parts do not matter", lambda: _additive(protocol, rng))
    yield guarded("estimator unbiased, variance as stated", lambda: _estimator(protocol, rng))
    yield guarded("messages per user as stated", lambda: _messages(protocol, rng))
    yield guarded("count-space sampler", lambda: _counts(protocol, rng))
    yield guarded("lower bound below sound upper bound", lambda: _bounds(protocol))


def _bad_input(domain: Domain) -> Check:
    accepted = []
    for values in domain.refused():
        try:
            domain.validate(values)
            accepted.append(values)
        except ValueError:
            continue
    return Check("bad input refused", not accepted, f"accepted {accepted}" if accepted else "ValueError for each")


def _reproducible(protocol: Protocol, seed: int) -> Check:
    values = protocol.domain.validate(protocol.domain.example(200, np.random.default_rng([seed, 3])))
    before, state = values.copy(), _global_state()
    first, second = (protocol.encode(values, np.random.default_rng([seed, 4])) for _ in range(2))
    problems = []
    if not np.array_equal(first.messages, second.messages):
        problems.append("two runs with one seed differ")
    if not np.array_equal(values, before, equal_nan=values.dtype.kind == "f"):
        problems.append("the caller's values were changed")
    if not np.array_equal(state, _global_state()):
        problems.append("the global random state was used")
    return Check("same seed, same messages", not problems, "; ".join(problems) or "and no side effects")


def _global_state() -> Array:
    """NumPy's legacy global state; that nobody touches it is what is checked."""
    state: Any = np.random.get_state()  # noqa: NPY002
    return np.array(state[1])


def _additive(protocol: Protocol, rng: np.random.Generator) -> Check:
    values = protocol.domain.validate(protocol.domain.example(101, rng))
    encoded = protocol.encode(values, rng)
    messages = encoded.messages
    whole = protocol.aggregate(messages)
    cut = len(messages) // 3
    parts = protocol.aggregate(messages[:cut]) + protocol.aggregate(messages[cut:])
    shuffled = protocol.aggregate(Shuffler().shuffle(encoded, rng))
    scale = 1 + float(np.abs(whole).max())
    worst = max(float(np.abs(whole - parts).max()), float(np.abs(whole - shuffled).max())) / scale
    return Check("order and parts do not matter", worst <= ROUNDING, f"largest relative difference {worst:.2g}")


def _estimator(protocol: Protocol, rng: np.random.Generator) -> Check:
    values, truth, spread = _setting(protocol, rng)
    stated: list[float] = []

    def run() -> Array:
        messages = Shuffler().shuffle(protocol.encode(values, rng), rng)
        aggregate = protocol.aggregate(messages)
        stated.append(float(protocol.estimated_variance(aggregate, USERS).sum()))
        return protocol.estimate(aggregate, USERS)

    check = _compare("estimator unbiased, variance as stated", run, truth, spread)
    exact = float((spread**2).sum())
    if np.mean(stated) < STDERR_SHARE * exact:
        small = f"{check.detail}; variance from the reports {np.mean(stated):.6g}, exact {exact:.6g}"
        return Check(check.name, False, small)
    return check


def _counts(protocol: Protocol, rng: np.random.Generator) -> Check:
    values, truth, spread = _setting(protocol, rng)
    held, counts = np.unique(values, axis=0, return_counts=True)
    if protocol.sample_groups(held, counts, rng) is None:
        return Check("count-space sampler", None, "none offered")

    def run() -> Array:
        drawn = protocol.sample_groups(held, counts, rng)
        return protocol.estimate(np.asarray(drawn), USERS)

    return _compare("count-space sampler", run, truth, spread)


def _setting(protocol: Protocol, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    values = protocol.domain.validate(protocol.domain.example(USERS, rng))
    total = protocol.domain.total(values)
    return values, protocol.domain.truth(total, USERS), np.sqrt(protocol.variance(total, USERS))


def _compare(name: str, run: Callable[[], Array], truth: Array, spread: Array) -> Check:
    """t-tests over repeats: of summed errors in groups of values against 0, of mean squared error / variance against 1."""
    repeats = REPEATS if truth.size <= WIDE else REPEATS_WIDE
    exact = spread <= ROUNDING * (1 + np.abs(truth))
    groups = np.arange(truth.size) % GROUPS
    stated = np.sqrt(np.bincount(groups, weights=np.where(exact, 0.0, spread**2)))
    sums = np.zeros((repeats, stated.size))
    ratios = np.zeros((repeats, 1))
    worst_exact = 0.0
    for repeat in range(repeats):
        error = run() - truth
        worst_exact = max(worst_exact, float(np.abs(error[exact] / (1 + np.abs(truth[exact]))).max(initial=0.0)))
        sums[repeat] = np.bincount(groups, weights=np.where(exact, 0.0, error))
        if not exact.all():
            ratios[repeat] = np.mean((error[~exact] / spread[~exact]) ** 2)
    # Where an error is a rare jump, the repeats may have missed it: the stated spread says how wide they could have been.
    bias = _t(sums, 0.0, stated)
    variance = 0.0 if exact.all() else _t(ratios, 1.0)
    passed = bias <= Z_LIMIT and variance <= Z_LIMIT and worst_exact <= ROUNDING
    detail = f"bias {bias:.1f} and variance {variance:.1f} standard errors off"
    if not exact.all():
        detail += f", squared error / variance = {ratios.mean():.3f}"
    if worst_exact > ROUNDING:
        detail += f", error {worst_exact:.2g} where none is stated"
    return Check(name, passed, f"{detail} ({repeats} repeats)")


def _t(samples: Array, expected: float, least: Array | float = 0.0) -> float:
    """Largest t-statistic of the columns' means; `least` is a lower bound on their standard deviation."""
    deviation = np.maximum(samples.std(axis=0, ddof=1), least)
    gap = np.abs(samples.mean(axis=0) - expected)
    still = deviation <= 1e-12 * (1 + gap)
    t = gap / np.where(still, 1.0, deviation) * np.sqrt(samples.shape[0])
    return float(np.where(still, np.where(gap <= ROUNDING, 0.0, np.inf), t).max())


def _messages(protocol: Protocol, rng: np.random.Generator) -> Check:
    values = protocol.domain.validate(protocol.domain.example(USERS, rng))
    counts, problems = np.zeros((50, 1)), []
    expected = protocol.expected_messages(protocol.domain.total(values), USERS) / USERS
    for repeat in range(50):
        encoded = protocol.encode(values, rng)
        counts[repeat] = encoded.messages.shape[0] / USERS
        sizes = np.ones(USERS) if encoded.sizes is None else encoded.sizes
        if sizes.shape != (USERS,) or sizes.sum() != encoded.messages.shape[0]:
            problems.append(f"sizes {sizes.shape} sum to {sizes.sum()}, messages are {encoded.messages.shape[0]}")
            break
    if expected > protocol.messages_per_user * (1 + ROUNDING):
        problems.append(f"{protocol.messages_per_user:.6g} per user are stated at most, {expected:.6g} for these data")
    if _t(counts, expected) > Z_LIMIT:
        problems.append(f"stated {expected:.6g}, observed {counts.mean():.6g}")
    return Check("messages per user as stated", not problems, "; ".join(problems) or f"{counts.mean():.6g} observed")


class _Solved:
    """What `delta` asks of a protocol of n users: claims are made once; equal values, also as part of "sound", solved once."""

    def __init__(self, protocol: Protocol, n: int) -> None:
        solve = cache(lambda value, eps, rtol: value.delta(eps, rtol))

        def solved(value: Any) -> Value:
            return cast(Value, SimpleNamespace(delta=partial(solve, value)))

        self.local_epsilon = protocol.local_epsilon
        self._claims = [replace(c, value=solved(c.value)) for c in protocol.claims(Crowd(n))]

    def claims(self, crowd: Crowd) -> list[Claim]:
        return self._claims


def _bounds(protocol: Protocol) -> Check:
    claims = protocol.claims(Crowd(max(SIZES)))
    if not any(c.bound == "lower" for c in claims) or not any(c.side == "upper" and c.sound for c in claims):
        return Check("lower bound below sound upper bound", None, "only one side offered")
    names = ["sound", *dict.fromkeys(c.bound for c in claims if c.side == "upper" and c.sound)]
    crossed = []
    for n in SIZES:
        solved = _Solved(protocol, n)
        lows = delta(solved, n, EPSILONS, bound="lower").lower
        for bound in names:
            highs = delta(solved, n, EPSILONS, bound=bound).upper
            crossed += [
                f"{bound} at n={n}, eps={eps}: {high:.6g} < {low:.6g}"
                for eps, low, high in zip(EPSILONS, lows, highs, strict=True)
                if high < low
            ]
    detail = "; ".join(crossed[:3]) or f"{len(names)} upper bounds at {len(SIZES) * len(EPSILONS)} points"
    return Check("lower bound below sound upper bound", not crossed, detail)

"""Run a protocol end to end on data: encode, shuffle, analyze - in blocks, reproducibly."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, overload

import numpy as np
from scipy import special

from ._checks import SIZE_MAX, check_delta, check_integer, check_number
from ._sampling import child, seed_root
from .domains import Array, Blocks, Categories, Counts, Domain, Histogram, Stream
from .population import Population, Received, Senders
from .protocol import Protocol
from .protocols import SingleMessage
from .randomizer import Randomizer
from .repeats import Repeats
from .results import Simulation
from .shuffler import Shuffler

# Users whose randomness comes from one child seed. Part of what a seed means: changing it changes every result.
BLOCK = 65_536
# Random numbers drawn at once; wide reports get smaller blocks, by a rule that depends on the protocol alone.
BLOCK_DRAWS = 2**22
# The most of one user, who cannot be divided: 2 GB.
USER_DRAWS_MAX = 2**28
# The child seed for what all faulty users have in common; no block has this number.
COMMON = 2**32 - 1
# More runs than anybody waits for.
REPEATS_MOST = 10**6


Method = Literal["users", "counts"]
Seed = int | np.random.SeedSequence | None


@overload
def simulate(
    protocol: Protocol | Randomizer,
    data: Any,
    *,
    delta: float,
    seed: Seed = ...,
    method: Method = ...,
    chunk_size: int | None = ...,
    confidence: float = ...,
    population: Population | None = ...,
    minimum_batch: int = ...,
    repeats: None = ...,
    workers: int = ...,
    progress: Callable[[int], None] | None = ...,
) -> Simulation: ...


@overload
def simulate(
    protocol: Protocol | Randomizer,
    data: Any,
    *,
    delta: float,
    seed: Seed = ...,
    method: Method = ...,
    chunk_size: int | None = ...,
    confidence: float = ...,
    population: Population | None = ...,
    minimum_batch: int = ...,
    repeats: int,
    workers: int = ...,
    progress: Callable[[int], None] | None = ...,
) -> Repeats: ...


def simulate(
    protocol: Protocol | Randomizer,
    data: Any,
    *,
    delta: float,
    seed: Seed = None,
    method: Method = "users",
    chunk_size: int | None = None,
    confidence: float = 0.95,
    population: Population | None = None,
    minimum_batch: int = 1,
    repeats: int | None = None,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Simulation | Repeats:
    """Encode every user's value, shuffle all messages, and analyze what comes out.

    Parameters
    ----------
    protocol : Protocol or Randomizer
        A randomizer counts as the protocol in which everybody sends one report.
    data : array_like, shape (n, ...), or Stream, or what it takes, or Counts
        One value per user, in the protocol's domain: codes, numbers, or rows of `domain.shape`. Pandas objects keep their labels
        in the result. Data larger than memory: a folder of Parquet files, a list of files, an Arrow dataset, an iterator of
        batches; `Stream` chooses columns. For method "counts" also the histogram of any number of users, as `Counts`.
    delta : float
        Probability, in (0, 1), for the privacy table.
    seed : int or numpy.random.SeedSequence, optional
        Fixes the result. Without it, fresh entropy is drawn and recorded in the result.
    method : {"users", "counts"}
        "users" runs every user's randomizer and shuffles the messages; "counts" draws the aggregate of all messages directly
        from the histogram of the data, with the same distribution, where the protocol has such a sampler.
    chunk_size : int, optional
        Users between two progress calls; rounded up to whole blocks. The result does not depend on it.
    confidence : float
        Level of the confidence intervals, in (0, 1).
    population : Population, optional
        Users who drop out, and users who attack; for method "users". `Simulation.damage` then says what they did, and the privacy
        table is for the honest users who are left.
    minimum_batch : int
        The shuffler releases nothing if fewer users than that have sent messages.
    repeats : int, optional
        Number of independent runs on the same data, which an iterator does not give twice; run r has child r of the seed.
    workers : int
        Processes that share the runs; the result does not depend on it.
    progress : callable, optional
        Called with the number of users done so far; of runs, if there are several.

    Returns
    -------
    Simulation or Repeats
        Estimates, privacy, cost and summary as pandas objects; with `repeats`, bias, mean squared error and coverage instead.

    Raises
    ------
    ValueError
        If a value is outside the protocol's domain, an argument is out of range, or a file is damaged; the message names it. What
        an iterator raises passes through.

    Notes
    -----
    Users are processed in blocks (65,536 users; fewer where reports are wide). Block k draws from child k of the seed, as
    `SeedSequence.spawn` numbers them, so that the result depends on the seed and the values alone, in one array or in any
    batches. Memory: the data (one batch of a stream), one block's messages, and the additive aggregate.

    Examples
    --------
    >>> from shufflesim.mechanisms import GRR
    >>> result = simulate(GRR(epsilon=2.0, d=3), [0, 1, 2, 2] * 1000, delta=1e-6, seed=1)
    >>> result.estimates["truth"].tolist()
    [1000.0, 1000.0, 2000.0]
    """
    if isinstance(protocol, Randomizer):
        protocol = SingleMessage(protocol)
    if not isinstance(protocol, Protocol):
        raise ValueError(f"protocol must be a Protocol or a Randomizer, got {protocol!r}")
    delta = check_delta(delta)
    rule = "strictly between 0 and 1"
    confidence = check_number("confidence", confidence, rule, low=math.nextafter(0, 1), high=math.nextafter(1, 0))
    if not isinstance(method, str) or method not in ("users", "counts"):
        raise ValueError(f"method must be 'users' or 'counts', got {method!r}")
    if population is not None and not (isinstance(population, Population) and method == "users"):
        raise ValueError(f"population must be a Population and method 'users', got {population!r} and {method!r}")
    if method == "users" and protocol.width > USER_DRAWS_MAX:
        rule = f"'counts' for {protocol.name}, of which one user needs {protocol.width:.3g} numbers (at most 2^28 fit)"
        raise ValueError(f"method must be {rule}, got {method!r}")
    shuffler = Shuffler(minimum_batch)
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be callable, got {progress!r}")
    root = seed_root(seed)
    workers = check_integer("workers", workers, low=1)
    chunk = BLOCK if chunk_size is None else check_integer("chunk_size", chunk_size, low=1)
    data = Stream.of(data)
    if repeats is not None:
        if isinstance(data, Stream):
            data.refuse_once("for repeats")
        options = {"delta": delta, "method": method, "confidence": confidence, "population": population}
        options["minimum_batch"] = minimum_batch
        return _repeated(
            protocol, data, check_integer("repeats", repeats, low=1, high=REPEATS_MOST), workers, root, options, progress
        )
    if workers > 1:
        raise ValueError(f"workers must be 1 for a single run, got {workers}")
    block = max(1, min(BLOCK, BLOCK_DRAWS // protocol.width))

    started = time.perf_counter()
    senders = None if population is None else Senders(population, protocol, np.random.default_rng(child(root, COMMON)))
    crowd = Received()
    if isinstance(data, Counts):
        if method != "counts":
            raise ValueError(f"method must be 'counts' for data given as Counts, got {method!r}")
        groups = data.groups(protocol.domain)
        n, total, labels = data.n, protocol.domain.grouped_total(*groups), protocol.domain.labels
    else:
        blocks = Blocks(data, protocol.domain, block)
        told = _told(blocks, chunk, progress)
        if method == "users":
            total, aggregate, messages = _run_users(protocol, told, root, senders, crowd)
        else:
            total, groups = _histogram(protocol.domain, told)
        n, labels = blocks.n, blocks.labels
    if method == "counts":
        aggregate, messages = _draw_counts(protocol, groups, n, root)
    if population is None:
        crowd = Received(n, 0, 0)
    shuffler.admit(crowd.users)
    counted = crowd.users - round(crowd.rejected / protocol.messages_per_user)
    if counted < 1:
        raise ValueError(f"population must leave at least one user with valid messages, got {population!r} for {n} users")
    return Simulation(
        protocol=protocol,
        n=n,
        delta=delta,
        confidence=confidence,
        labels=labels,
        truth=protocol.domain.truth(total, n),
        estimate=protocol.estimate(aggregate, counted),
        variance=protocol.variance(total, n),
        estimated_variance=protocol.estimated_variance(aggregate, counted),
        aggregate=aggregate,
        messages=messages,
        entropy=root.entropy,
        spawn_key=root.spawn_key,
        method=method,
        seconds=time.perf_counter() - started,
        population=population,
        received=crowd,
    )


def _repeated(
    protocol: Protocol,
    data: Any,
    repeats: int,
    workers: int,
    root: np.random.SeedSequence,
    options: dict[str, Any],
    progress: Callable[[int], None] | None,
) -> Repeats:
    """Independent runs, summed up in their order whoever made them."""
    from joblib import Parallel, delayed

    z = float(special.ndtri(0.5 + options["confidence"] / 2))

    def run(number: int) -> tuple[Simulation | None, Array, Array]:
        result = simulate(protocol, data, seed=child(root, number), **options)
        error = result.estimate - result.truth
        inside = np.abs(error) <= z * np.sqrt(result.estimated_variance)
        return (result if number == 0 else None), error, inside

    runs = Parallel(n_jobs=min(workers, repeats), return_as="generator")(delayed(run)(number) for number in range(repeats))
    first: Simulation | None = None
    sums: list[Any] = [0, 0, 0]
    rmses = np.empty(repeats)
    for number, (result, error, inside) in enumerate(runs):
        first = result or first
        square = error * error
        sums = [total + part for total, part in zip(sums, (error, square, inside), strict=True)]
        rmses[number] = math.sqrt(float(square.mean()))
        if progress is not None:
            progress(number + 1)
    assert first is not None  # run 0 brings it
    about = first.protocol, first.n, first.delta, first.confidence, first.labels, first.truth, first.variance
    return Repeats(*about, sums[0], sums[1], sums[2], rmses, root.entropy, root.spawn_key)


def _told(blocks: Blocks, chunk: int, progress: Callable[[int], None] | None) -> Iterator[Array]:
    """The same blocks, with calls of `progress` when they have been worked on."""
    reported = 0
    for block in blocks:
        yield block
        if progress is not None and blocks.n - reported >= chunk:
            reported = blocks.n
            progress(reported)
    if progress is not None and blocks.n > reported:
        progress(blocks.n)


def _run_users(
    protocol: Protocol, blocks: Iterable[Array], root: np.random.SeedSequence, senders: Senders | None, crowd: Received
) -> tuple[Array, Array, float]:
    """Summary of the data, aggregate and number of messages, summed over blocks."""
    total, aggregate, messages = np.array(0), np.array(0), 0.0
    for index, part in enumerate(blocks):
        sums, sent = _run_block(protocol, part, child(root, index), senders, crowd)
        total, aggregate, messages = total + protocol.domain.total(part), aggregate + sums, messages + sent
    return total, aggregate, messages


def _histogram(domain: Domain, blocks: Iterable[Array]) -> tuple[Array, tuple[Array, Array]]:
    """Summary of the data, and different values with the number of users who hold each."""
    total, histogram = np.array(0), Histogram()
    for part in blocks:
        total = total + domain.total(part)
        if not isinstance(domain, Categories):
            histogram.add(part)
    return total, (np.arange(domain.d), total) if isinstance(domain, Categories) else histogram.groups()


def _run_block(
    protocol: Protocol, part: Array, seed: np.random.SeedSequence, senders: Senders | None, crowd: Received
) -> tuple[Array, int]:
    """Aggregate and number of messages of one block of users."""
    rng = np.random.default_rng(seed)
    if senders is None:
        shuffled = Shuffler().permute(protocol.encode(part, rng).messages, rng)
        return protocol.aggregate(shuffled), shuffled.shape[0]
    sent = senders.encode(part, np.random.default_rng(child(seed, 0)), rng)
    shuffled = Shuffler().permute(sent.encoded.messages, rng)
    accepted = senders.accepted(shuffled)
    crowd.add(sent.present, sent.faulty, shuffled.shape[0] - accepted.shape[0])
    return protocol.aggregate(accepted), shuffled.shape[0]


def _draw_counts(protocol: Protocol, groups: tuple[Array, Array], n: int, root: np.random.SeedSequence) -> tuple[Array, float]:
    if n * protocol.messages_per_user > SIZE_MAX:
        raise ValueError(f"n must be such that there are at most 2^62 messages, got {n} users for {protocol.name}")
    drawn = protocol.sample_groups(*groups, np.random.default_rng(child(root, 0)))
    if drawn is None:
        raise ValueError(f"method='counts' needs a protocol with an exact sampler of its aggregate, got {protocol.name}")
    return drawn, protocol.messages_in(drawn, n)

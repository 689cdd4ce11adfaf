r"""The divergence of a table as a contour integral: the same cost for any number of messages.

With M(z) = E[e^{zX}] and m messages (theory of the Bromwich integral of max(0, s), exact for every theta > 0),

    D = (1 / 2 pi i) * integral over Re z = theta of  G(z) z^-2 dz,      G(z) = E_m[M(z)^m / m].

theta is the saddle point, m K'(theta) = 2/theta with K = log M.  The trapezoid rule on the whole line with step h equals

    sum over k of  e^{theta k L} * E[max(0, S - k L)/m],    L = 2 pi / h,

so it never lies below D, and what it adds is bounded by a Chernoff bound (k > 0) and by e^{-theta L}(...) (k < 0).

Where it is worth evaluating the integrand: pick two rows A, B with tilted probabilities a, b and distance
Delta = x_A - x_B. Then |M(theta + iy)/M(theta)|^2 <= 1 - 2ab(1 - cos(y Delta)), hence

    |M(theta + iy)/M(theta)|^m <= exp(-c (1 - cos(y Delta))),    c = m a b,

which is tiny outside windows around y = 2 pi k / Delta. Those windows are summed for k <= K; the rest is bounded, period by
period, with the integral (2 pi / Delta) e^{-c} I0(c) and sum over k > K of (2k-1)^-2 <= 1/(4K). Windows k >= 1 that a third
row already extinguishes are skipped, again by a bound. Everything skipped is added to the slack.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from .count import MessageCount
from .random_count import NEGLIGIBLE, RULE_ACCURACY, counts_that_matter, rule
from .table import EXCESS_ULPS, Array, Table

# Rounding allowance in units of eps_machine * (1 + m theta E_theta[size of X's parts] + |log D|). Covers the tables' own last
# digits (two roundings a number), X, the exponent and the sum; checked against 30 digits and more in tests/test_bounds.py.
ROUNDING_UNITS = 16.0

# Products of two tilted probabilities below this do not dampen the integrand.
RARE = 1e-100
# Largest denominator of a continued fraction that is used; its square is far from the last digit of a double.
DENOMINATOR_MAX = 100_000
# Upper end of the search for the saddle point, in units of the largest X.
THETA_MAX = 1000.0

_MACHINE = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Saddle:
    """Tilted table at one eps: everything that the integral and the error bounds need. X is in units of its largest value."""

    theta: float
    log_moment: float  # log M(theta)
    log_total: float  # log G(theta)
    log_scale: float  # log of the unit of X
    x: Array
    tilted: Array  # probabilities of the rows under the tilted law
    spread: float  # standard deviation of S under the tilted law
    slope: float  # d log D / d eps, to leading order; <= 0
    rounding: float  # relative rounding allowance on D, for the exponents
    doubt: Array  # uncertainty of X per row, from the last digits of the table and of e^eps
    crowd: float  # messages that dampen the integrand: fewer come with a share e^-NEGLIGIBLE of G(theta)
    rule: tuple[Array, Array] | None  # nodes and weights for a random number of messages

    def accuracy(self, messages: float) -> float:
        """Relative width that no method can go below, to leading order: D is about G(theta)/(theta (1 + theta spread))."""
        return self.rounding + messages * float(self.tilted @ self.doubt) * self.theta * (1 + self.theta * self.spread)


def log_moment(table: Table, x: Array, theta: float) -> float:
    """log E[e^{theta X}] without cancellation for small theta and without overflow for large."""
    exponent = theta * x
    top = float(exponent.max())
    if top < 700.0 and (change := float(table.weight @ np.expm1(exponent))) > -0.5:
        return math.log1p(change)
    return top + math.log(float(table.weight @ np.exp(exponent - top)))


def log_total(
    count: MessageCount, nodes: tuple[Array, Array] | None, log_modulus: Array | float, angle: Array | float = 0.0
) -> tuple[Array, Array]:
    """Log-modulus and angle of G = E[M^m / m] from those of M; `nodes` as from `random_count.rule` if m is random."""
    log_modulus = np.asarray(log_modulus, dtype=float)
    if nodes is None:
        return count.fixed * log_modulus - math.log(count.fixed), count.fixed * np.asarray(angle)
    t, w = nodes
    log_term = count.log_pgf((log_modulus + 1j * np.asarray(angle))[..., None] - t)
    top = log_term.real.max(axis=-1, keepdims=True)
    total = (w * np.exp(log_term - top)).sum(axis=-1)
    modulus = np.log(np.maximum(np.abs(total), np.finfo(float).tiny))
    return modulus + top[..., 0], np.angle(total)


def saddle(table: Table, count: MessageCount, eps: float) -> Saddle | None:
    """Solve m K'(theta) = 2/theta; None where no outcome has X > 0 (the divergence is 0)."""
    x, doubt, scale = table.excess(eps, count.largest)
    if scale <= 0:
        return None
    m = count.mean
    mean, second = float(table.weight @ x), float(table.weight @ (x * x))
    # Quadratic K: m (mean + second t) = 2/t. Any theta > 0 is exact; the saddle is merely the best one.
    disc = math.sqrt(m * m * mean * mean + 8 * m * second)
    theta = 4.0 / (m * mean + disc) if mean > 0 else (disc - m * mean) / (2 * m * second)
    # No weight is below e^-745, so that beyond theta = 745 + log m the row with X = 1 has taken over and K' is 1.
    low, high = 0.0, THETA_MAX
    theta = min(theta, 0.5 * high)
    for _ in range(200):
        tilted, first, variance = _tilt(table, x, theta)
        gap = m * first - 2 / theta
        if gap > 0:
            high = theta
        else:
            low = theta
        step = gap / (m * variance + 2 / theta**2)
        if abs(step) <= 1e-7 * theta:
            break
        theta = theta - step
        if not low < theta < high:
            theta = 0.5 * (low + high)
    tilted, first, variance = _tilt(table, x, theta)
    log_m = log_moment(table, x, theta)
    crowd, most = counts_that_matter(count, log_m)
    nodes = rule(crowd, most) if count.is_random else None
    log_g = float(log_total(count, nodes, log_m)[0])
    size = m * theta * float(tilted @ doubt) / (EXCESS_ULPS * _MACHINE)
    grown = float(tilted @ (table.g0 / scale - x))  # E[e^eps g1] under the tilted law
    rounding = _MACHINE * ROUNDING_UNITS * (1 + size + abs(log_g) + abs(math.log(scale)))
    spread, slope = math.sqrt(m * variance), -m * theta * grown
    return Saddle(theta, log_m, log_g, math.log(scale), x, tilted, spread, slope, rounding, doubt, crowd, nodes)


def _tilt(table: Table, x: Array, theta: float) -> tuple[Array, float, float]:
    """Tilted probabilities, and mean and variance of X under them; the largest x is 1."""
    weight = table.weight * np.exp(theta * (x - 1))
    tilted = weight / weight.sum()
    first = float(tilted @ x)
    return tilted, first, float(tilted @ (x - first) ** 2)


def alias_bound(table: Table, count: MessageCount, s: Saddle) -> tuple[float, float]:
    """Choose the period L; return it and a bound on the trapezoid rule's excess relative to G(theta).

    k > 0: E[max(0, S - kL)] e^{theta kL} <= M(lam)^m e^{-(lam - theta) kL} / (e lam) for lam > theta.
    k < 0: e^{-theta kL} E[max(0, S + kL)] <= e^{-theta kL} (kL + M(theta)^m / (e theta)).
    Averaged over m, 1/m <= 1/fixed.
    """
    step = 9.0 / s.spread if s.spread > 0 else s.theta
    lam = s.theta + step
    log_fixed = math.log(count.fixed)
    rise = float(count.log_pgf(np.asarray(log_moment(table, s.x, lam)))) - log_fixed - s.log_total
    # log_total <= 0 for eps >= 0, hence kL relative to G(theta) needs -log_total more decay.
    period = max((rise + NEGLIGIBLE) / step, (NEGLIGIBLE + max(0.0, -s.log_total - log_fixed)) / s.theta)
    right = math.exp(min(700.0, rise - step * period)) / (math.e * lam)
    left_decay = s.theta * period
    left = math.exp(-left_decay) / (math.e * s.theta) + period * math.exp(min(700.0, -left_decay - s.log_total - log_fixed))
    return period, 2 * (right + left)


def _pairs(s: Saddle, m: float) -> tuple[Array, Array, Array, Array]:
    """Pairs among the rows with the most probability or the most variance: indices a, b, distance Delta > 0 and c = m a b."""
    first = float(s.tilted @ s.x)
    top = np.union1d(np.argsort(s.tilted)[-12:], np.argsort(s.tilted * (s.x - first) ** 2)[-12:])
    a, b = (index.ravel() for index in np.meshgrid(top, top, indexing="ij"))
    delta = s.x[a] - s.x[b]
    keep = delta > 0
    a, b, delta = a[keep], b[keep], delta[keep]
    return a, b, delta, m * s.tilted[a] * s.tilted[b]


def share(s: Saddle) -> float:
    """What is left of G(theta + iy)/G(theta) where the messages that dampen it leave e^-NEGLIGIBLE."""
    return math.exp(-NEGLIGIBLE) if s.rule is None else 3 * math.exp(-NEGLIGIBLE) + RULE_ACCURACY


def trivial(table: Table, count: MessageCount, s: Saddle) -> tuple[float, float]:
    """Enclosure of log D without any analysis, in units of X.

    Upper: E max(0, sum X) <= m E max(0, X), the value without any crowd. Lower: all messages in rows of the largest X.
    """
    upper = math.log(float(table.weight @ np.maximum(s.x + s.doubt, 0.0)))
    # max(0, s) <= e^{theta s}/(e theta), each X with its doubt; expm1(y) <= 1.01 y up to y = 0.01.
    if s.theta * float(s.doubt.max()) < 0.01:
        doubt = 1.01 * count.largest * s.theta * float(s.tilted @ s.doubt)
        upper = min(upper, s.log_total - 1 - math.log(s.theta) + doubt)
    top = s.x == 1.0
    sure = 1 - float(s.doubt[top].max())
    # The last digits of a weight next to 1 are multiplied by the number of messages.
    log_top = math.log(min(1.0, float(table.weight[top].sum()))) - 4 * _MACHINE
    return (count.largest * log_top + math.log(sure) if sure > 0 else -math.inf), upper


def _tail(delta: Array, c: Array, step: float, end: float) -> float:
    """Bound on the sum over |y| > end of |integrand|, times step / (2 pi), relative to G(theta): the best pair's.

    A pair has K = floor(end Delta / 2 pi - 1/2) complete windows within reach; each later period adds at most
    (2 pi/Delta) e^-c I0(c) + step at a height ((2k-1) pi/Delta)^-2.
    """
    k = np.floor(end * delta / (2 * math.pi) - 0.5)
    share = np.where(k >= 1, 1 / (4 * np.maximum(k, 1)), math.pi**2 / 8)
    # (2 pi/Delta) (Delta/pi)^2 = 2 Delta/pi, which does not overflow.
    bound = (2 * delta / math.pi * special.i0e(c) + step * (delta / math.pi) ** 2) * share / math.pi
    return float(bound[k >= 0].min(initial=math.inf))


def _convergents(rho: float) -> list[int]:
    """Denominators Q with |rho - P/Q| <= 1/Q^2 for some P, from the continued fraction, as far as a double can tell."""
    found, previous, current, rest = [1], 0, 1, rho - math.floor(rho)
    while rest > 1e-9:
        whole = math.floor(1 / rest)
        rest = 1 / rest - whole
        previous, current = current, whole * current + previous
        if current > DENOMINATOR_MAX:
            break
        found.append(current)
    return found


def _spread_bounds(s: Saddle, a: int, b: int, delta: float, m: float) -> tuple[Array, Array]:
    """(Q, F): in any Q consecutive windows of the pair A, B a third row C leaves at most F of them.

    Halve the pair's exponent: exp(-c (1 - cos u)) = exp(-(c/2)(1 - cos u))^2. One half keeps the width of a window; with the
    other, C dampens window k by exp(-E psi_k^2), psi_k = k rho to the nearest integer and E = 8 m (ab/2) ac/(ab/2 + ac rho^2), as
    in `_live_windows`. Q consecutive psi_k lie within 1/Q of the Q points o + i/Q (|rho - P/Q| <= 1/Q^2), so that
    sum exp(-E psi_k^2) <= 3 + 2 sum over j >= 0 of exp(-E j^2/Q^2) <= 5 + Q sqrt(pi/E).
    """
    blocks, left = [1.0], [1.0]
    own = 0.5 * s.tilted[a] * s.tilted[b]
    for other in np.argsort(s.tilted)[-12:]:
        for end in (a, b):
            weight = s.tilted[end] * s.tilted[other]
            rho = float(s.x[end] - s.x[other]) / delta
            # A third row that is too rare, or too far for the fraction's digits, dampens nothing.
            if other in (a, b) or min(own, weight) < RARE or abs(rho) > 1e3:
                continue
            damping = 8 * m * own * weight / (own + weight * rho * rho)
            for q in _convergents(rho):
                blocks.append(float(q))
                left.append(5 + q * math.sqrt(math.pi / damping))
    return np.array(blocks), np.array(left)


def _live_windows(s: Saddle, a: int, b: int, delta: float, m: float, windows: int) -> tuple[Array, float]:
    """Windows 1..K that no third row extinguishes, and a bound on the ones left out (relative to the height 1/y^2).

    At y = (2 pi k + u)/Delta a third row C has the phase psi + rho u against A (psi, rho below), and 1 - cos t >= 2 t^2/pi^2
    to the nearest multiple of 2 pi; minimising a b u^2 + a c (psi + rho u)^2 over u bounds the whole period.
    """
    k = np.arange(1, windows + 1)
    exponent = np.zeros(windows)
    own = s.tilted[a] * s.tilted[b]
    for other in range(s.x.size):
        if other in (a, b):
            continue
        for end in (a, b):
            distance = s.x[end] - s.x[other]
            rho = distance / delta
            psi = np.remainder(k * rho + 0.5, 1.0) - 0.5
            weight = s.tilted[end] * s.tilted[other]
            if min(own, weight) >= RARE:
                exponent = np.maximum(exponent, 8 * m * own * weight * psi**2 / (own + weight * rho * rho))
    live = exponent < NEGLIGIBLE
    return k[live], math.exp(-NEGLIGIBLE)


def _sum_nodes(count: MessageCount, s: Saddle, y: Array) -> float:
    """Sum over the nodes of Re[ (G(theta + iy)/G(theta)) (theta + iy)^-2 ], in chunks."""
    total = 0.0
    chunk = max(1, 2**17 // s.x.size)
    for start in range(0, y.size, chunk):
        part = y[start : start + chunk]
        phase = np.multiply.outer(part, s.x)
        real = np.sin(0.5 * phase) ** 2 @ (-2 * s.tilted)
        imag = np.sin(phase) @ s.tilted
        log_modulus = 0.5 * np.log1p(np.maximum(2 * real + real * real + imag * imag, -1 + 1e-16))
        log_g, turn = log_total(count, s.rule, s.log_moment + log_modulus, np.arctan2(imag, 1 + real))
        height = np.exp(log_g - s.log_total) / (s.theta**2 + part**2)
        total += float(height @ np.cos(turn - 2 * np.arctan2(part, s.theta)))
    return total


def estimate(count: MessageCount, s: Saddle) -> float:
    """log D from the central peak alone, with a step for 1e-6 relative: no guarantee, for stepping towards a root."""
    step = min(0.45 * s.theta, 0.8 / s.spread if s.spread > 0 else math.inf)
    reach = 7.0 / s.spread if s.spread > 0 else 500 * step
    y = np.arange(1, int(min(reach / step, 500)) + 1) * step
    total = 1 / s.theta**2 + 2 * _sum_nodes(count, s, y)
    return s.log_scale + s.log_total + math.log(max(total, 1e-3 / s.theta**2) * step / (2 * math.pi))


def enclose(
    table: Table, count: MessageCount, s: Saddle, *, rtol: float, max_nodes: int, or_nothing: bool = False
) -> tuple[float, float] | None:
    """Enclosure of log D in one direction.

    Parameters
    ----------
    table, count, s : Table, MessageCount, Saddle
        What is evaluated, and its saddle at the eps that is asked for.
    rtol : float
        Relative slack to aim at; the slack that is reached is in the result whether or not it is met.
    max_nodes : int
        Bound on the number of nodes beyond the central window.
    or_nothing : bool
        Give up early where the aim needs more nodes than that.

    Returns
    -------
    (log_lower, log_upper) : tuple of float, or None
        -inf for a zero; None where it gave up.
    """
    period, alias = alias_bound(table, count, s)
    step = 2 * math.pi / period
    m = s.crowd
    margin = math.log1p(s.rounding)
    least, most = (s.log_scale + end for end in trivial(table, count, s))
    pair_a, pair_b, pair_delta, pair_c = _pairs(s, m)
    if not pair_a.size or float(pair_c.max()) == 0:
        return least - margin, most + margin
    # The windows follow the pair with the largest share of the variance: no other pair's are narrower by much.
    chosen = int(np.argmax(pair_c * pair_delta**2))
    a, b = int(pair_a[chosen]), int(pair_b[chosen])
    delta, c = float(pair_delta[chosen]), float(pair_c[chosen])
    # 1 - cos(half) = NEGLIGIBLE/c, without the difference that a large c would round away.
    half = 2 * math.asin(math.sqrt(NEGLIGIBLE / (2 * c))) if c > NEGLIGIBLE / 2 else math.pi

    if half > delta * step * max_nodes:
        if or_nothing:
            return None
        return least - margin, most + margin
    reach = math.floor(half / (delta * step))
    total = 1 / s.theta**2 + 2 * _sum_nodes(count, s, step * np.arange(1, reach + 1))
    per_window = max(1, 2 * reach)
    blocks, left = _spread_bounds(s, a, b, delta, m)
    half_width = 2 * math.pi / delta * float(special.i0e(c / 2)) + step

    def tail_after(k: int) -> float:
        """Bound on everything beyond window k: by periods of the best pair, or by blocks of the windows that are left."""
        periods = _tail(pair_delta, pair_c, step, (2 * k + 1) * (1 + 1e-12) * math.pi / delta)
        sums = left * (1 / (2 * k + 1) ** 2 + 1 / (2 * blocks * (2 * k + 1)))
        return min(periods, half_width * (delta / math.pi) ** 2 / math.pi * float(sums.min()))

    aim = rtol * max(total, 1e-3 / s.theta**2) * step / (2 * math.pi)
    most_windows = int(10 * max_nodes / per_window)
    windows = 0
    while tail_after(windows) > aim and windows < most_windows:
        windows = min(2 * windows + 1, most_windows)
    if or_nothing and tail_after(windows) > aim:
        return None
    skipped = share(s) * (1 / s.theta + step / s.theta**2)
    if windows > 0:
        k, height = _live_windows(s, a, b, delta, m, windows)
        if k.size * per_window > max_nodes:
            if or_nothing:
                return None
            windows = int(k[max_nodes // per_window]) - 1 if max_nodes >= per_window else 0
            k = k[k <= windows]
        first = np.ceil((2 * math.pi * k - half) / (delta * step))
        last = np.floor((2 * math.pi * k + half) / (delta * step))
        offsets = np.arange(per_window + 2)
        nodes = first[:, None] + offsets
        if half == math.pi:
            # Neighbouring windows touch: keep each node once.
            last = np.ceil((2 * math.pi * k + half) / (delta * step)) - 1
            nodes = np.where(nodes <= reach, np.inf, nodes)
        nodes = nodes[nodes <= last[:, None]]
        total += 2 * _sum_nodes(count, s, step * nodes)
        skipped += height * delta / math.pi
    tail = tail_after(windows)

    value = total * step / (2 * math.pi)
    # |dD| <= E[sum of doubts; S > 0] / m <= E[sum of doubts e^{theta S}] / m = m G(theta) E_theta[doubt].
    doubt = count.largest * float(s.tilted @ s.doubt)
    lower, upper = value - alias - tail - skipped - doubt, value + tail + skipped + doubt
    unit = s.log_scale + s.log_total
    log_lower = max(unit + math.log(lower), least) if lower > 0 else least
    return log_lower - margin, min(unit + math.log(upper), most) + margin

r"""The divergence of a table by the contour integral after smoothing: no tail to bound, whatever the rows are.

The integrand of `contour` has windows at all heights, and many rows with little weight each give poor bounds on the far ones. So
add an independent normal G of standard deviation sigma to the sum S of all X. By convexity E max(0, S + G) >= E max(0, S), and

    E max(0, S + G) - max(0, S) = sigma psi(S/sigma),    0 <= psi(x) = phi(x) - |x| Phi(-|x|) <= phi(x),

with the normal density phi and distribution function Phi. Both sides are contour integrals with a Gaussian factor,

    E max(0, S + G) = (1 / 2 pi i) * integral of  M(z)^m e^{sigma^2 z^2/2} z^-2 dz,
    E sigma phi(S/sigma) = (1 / 2 pi i) * integral of  M(z)^m e^{sigma^2 z^2/2} sigma^2 dz,

which ends the sum at a height of REACH/sigma. The second is about (sigma theta)^2 of the first: four times the nodes narrow the
enclosure by a factor of 16. Dividing by m, and averaging over a random m, changes nothing.
"""

from __future__ import annotations

import math

import numpy as np

from . import contour
from .table import Array, MessageCount, Table

# Height of the last node in units of 1/sigma: e^{-REACH^2/2} = 5e-19 is what is left of the Gaussian factor.
REACH = 9.2
# Largest sigma theta that is worth the evaluation, and largest sigma lambda in the bound on the trapezoid rule.
BLUR_MAX = 0.5
ALIAS_MAX = 4.0
# Rows up to which a loop is faster than a matrix product, for which a linear algebra library would start threads.
FEW_ROWS = 16
# Nodes that are always affordable.
NODES_MIN = 64


def per_node(table: Table, s: contour.Saddle) -> int:
    """What one node costs, in rows."""
    return table.size if s.rule is None else table.size + 2 * s.rule[0].size


def cells(table: Table, count: MessageCount, s: contour.Saddle, rtol: float) -> float:
    """Nodes times rows for a relative slack of rtol."""
    period, _ = contour.alias_bound(table, count, s)
    return REACH * s.theta * period / (2 * math.pi * math.sqrt(0.5 * rtol)) * per_node(table, s)


def enclose(table: Table, count: MessageCount, s: contour.Saddle, *, rtol: float, max_cells: int) -> tuple[float, float]:
    """Enclosure of log D in one direction.

    Parameters
    ----------
    table, count, s : Table, MessageCount, Saddle
        What is evaluated, and its saddle at the eps that is asked for.
    rtol : float
        Relative slack to aim at; the slack that is reached is in the result whether or not it is met.
    max_cells : int
        Bound on nodes times rows.

    Returns
    -------
    (log_lower, log_upper) : tuple of float
        -inf for a zero.
    """
    least, most = (s.log_scale + end for end in contour.trivial(table, count, s))
    margin = math.log1p(s.rounding)
    period, alias = contour.alias_bound(table, count, s)
    step = 2 * math.pi / period
    nodes = max(NODES_MIN, math.ceil(min(cells(table, count, s, rtol), max_cells) / per_node(table, s)))
    sigma = REACH / (nodes * step)
    if s.spread == 0 or sigma * s.theta > BLUR_MAX or sigma * (s.theta + 9 / s.spread) > ALIAS_MAX:
        return least - margin, most + margin

    kept, log_g, turn = _line(count, s, step, nodes)
    z = s.theta + 1j * step * kept
    part = np.exp(log_g + 1j * turn + 0.5 * (sigma * z) ** 2)
    part[0] *= 0.5
    unit = step / math.pi
    smooth = unit * float((part / z**2).real.sum())
    added = unit * sigma**2 * float(part.real.sum())
    # Nodes that were left out: their sum and integral, as below.
    dropped = unit * contour.share(s) * math.exp(0.5 * (sigma * s.theta) ** 2)
    left_out = dropped * (1 / s.theta**2 + math.pi / (2 * s.theta * step))
    added += dropped * sigma**2 * (1 + math.sqrt(math.pi / 2) / (sigma * step))
    # Beyond the last node |G(z)| <= G(theta); a falling function's sum is at most its first term and its integral.
    cut = unit * math.exp(0.5 * (sigma * s.theta) ** 2 - 0.5 * REACH**2) * (1 + 1 / (sigma * REACH * step))
    # The trapezoid rule adds E[max(0, S + G - kL)] e^{theta kL}: the Chernoff bounds of `contour` times that of G.
    alias *= math.exp(0.5 * (sigma * (s.theta + 9 / s.spread)) ** 2)
    doubt = count.largest * float(s.tilted @ s.doubt)
    beyond = cut / (nodes * step) ** 2 + left_out
    upper = smooth + beyond + doubt
    lower = smooth - alias - beyond - (added + sigma**2 * cut) - doubt
    log_unit = s.log_scale + s.log_total
    log_lower = max(log_unit + math.log(lower), least) if lower > 0 else least
    return log_lower - margin, min(log_unit + math.log(upper), most) + margin


def _line(count: MessageCount, s: contour.Saddle, step: float, nodes: int) -> tuple[Array, Array, Array]:
    """Indices k of the nodes y = k step that matter, log |G(theta + iy)/G(theta)| there, and its angle.

    With a, b = e^{iux} - 1 for u = coarse and fine steps, M(theta + iy)/M(theta) - 1 = E[a] + E[b] + E[ab]: a matrix product, in
    which small phases keep their digits. Nodes at which at most `contour.share` is left are left out before anything else is
    computed.
    """
    block = math.isqrt(nodes) + 1
    blocks = -(-(nodes + 1) // block)
    coarse, fine = (_turned(np.multiply.outer(step * width * np.arange(n), s.x)) for width, n in ((block, blocks), (1, block)))
    weighted = fine * s.tilted
    change = (coarse @ s.tilted)[:, None] + weighted.sum(axis=1)
    if s.x.size <= FEW_ROWS:
        for row in range(s.x.size):
            change += np.multiply.outer(coarse[:, row], weighted[:, row])
    else:
        change += coarse @ weighted.T
    change = change.ravel()[: nodes + 1]
    square = 2 * change.real + change.real**2 + change.imag**2
    kept = np.flatnonzero(square > math.expm1(-2 * contour.NEGLIGIBLE / s.crowd))
    log_modulus = 0.5 * np.log1p(np.maximum(square[kept], -1 + 1e-16))
    angle = np.arctan2(change.imag[kept], 1 + change.real[kept])
    log_g, turn = contour.log_total(count, s.rule, s.log_moment + log_modulus, angle)
    return kept, log_g - s.log_total, turn


def _turned(phase: Array) -> Array:
    """e^{i phase} - 1 without cancellation."""
    return -2 * np.sin(0.5 * phase) ** 2 + 1j * np.sin(phase)

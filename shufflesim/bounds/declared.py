"""The bounds that follow from a declaration alone, the field's published baselines among them."""

from __future__ import annotations

from collections.abc import Callable

from .claim import Claim
from .closed import Analytic, Asymptotic, CloneForm, Efmrtt
from .count import MessageCount
from .crowd import Crowd
from .pairs import Pairs
from .ratio import VariationRatio
from .table import Table
from .tails import GenericBlanket, Tail


def declared_claims(x: VariationRatio, crowd: Crowd) -> list[Claim]:
    """For user 1 in a crowd where everybody sends one message.

    Closed forms and inequalities of the literature are for a complete crowd; with drop-outs or sampling the exact tables remain.
    """
    claims = _tables(x, lambda table: Pairs((crowd.spread(table),), MessageCount(crowd.n)))
    if not crowd.complete:
        return claims
    claims += _closed(x, crowd.n - 1)
    if not x.is_ldp:
        return claims
    local, p, q = x.local_epsilon, x.p, x.q
    for bound, source, stronger in (
        ("stronger-clone-closed", "Feldman, McMillan, Talwar 2023, closed form", True),
        ("clone-closed", "Feldman, McMillan, Talwar 2021, Theorem 3.1", False),
    ):
        form = CloneForm(local, p, q, stronger, crowd.n - 1)
        claims.append(Claim(bound, "upper", True, source, "any eps0-LDP randomizer", form, baseline=True))
    for bound, bennett in (("blanket-hoeffding-generic", False), ("blanket-bennett-generic", True)):
        source = f"Balle et al. 2019, {'Bennett' if bennett else 'Hoeffding'}, gamma = e^-eps0"
        tail = Tail(GenericBlanket(local), crowd.n, local, bennett)
        claims.append(Claim(bound, "upper", True, source, "any eps0-LDP randomizer", tail, baseline=True))
    source, general = "Erlingsson et al. 2019, Theorem 7", "any eps0-LDP randomizer"
    return [*claims, Claim("efmrtt19", "upper", True, source, general, Efmrtt(local, crowd.n), baseline=True)]


def declared_claims_for(x: VariationRatio, count: MessageCount) -> list[Claim]:
    """For user 1's message among any number of independent blanket messages, as in multi-message protocols."""
    claims = _tables(x, lambda table: Pairs((table,), count))
    return claims if count.is_random else claims + _closed(x, count.fixed - 1)


def _tables(x: VariationRatio, value: Callable[[Table], Pairs]) -> list[Claim]:
    sound, reason = x.published_soundness()
    claims = [
        Claim("published", "upper", sound, "Wang et al. 2024, Algorithm 1", reason, value(x.published_table()), baseline=True),
        Claim(
            "three-outcome",
            "upper",
            True,
            "sound form of Wang et al. 2024, Theorem 4.7 (docs/soundness.md)",
            f"q_star = {x.neutral_q:.6g}",
            value(x.three_outcome_table()),
        ),
    ]
    general = "any eps0-LDP randomizer" if x.is_ldp else "any declaration with this p and q"
    for bound, source, why, largest in (
        ("stronger-clone", "Feldman, McMillan, Talwar 2023", "beta = (p-1)/(p+1), V3", x.largest()),
        ("clone", "Feldman, McMillan, Talwar 2021", "clones with probability 1/q", x.clones()),
    ):
        if largest is not None:
            value_of = value(largest.published_table())
            claims.append(Claim(bound, "upper", True, source, f"{general}: {why}", value_of, baseline=True))
    return claims


def _closed(x: VariationRatio, messages: int) -> list[Claim]:
    sound, reason = x.published_soundness()
    if not sound:
        reason = f"{reason} (its proof goes through the published pair)"
    local = x.local_epsilon
    forms = (
        ("analytic", "Wang et al. 2024, Theorem 4.2 (largest f(c), docs/baselines.md)", Analytic(local, x, messages)),
        ("asymptotic", "Wang et al. 2024, Theorem 4.3", Asymptotic(local, x, messages)),
    )
    return [Claim(bound, "upper", sound, source, reason, form, baseline=True) for bound, source, form in forms]

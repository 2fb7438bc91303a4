"""Accounting: privacy loss in integer units, and its composition."""

from dpsql.privacy.accounting.zcdp import (
    Amount,
    Budget,
    Composition,
    PrivacyLoss,
    epsilon_from_zcdp,
    epsilon_simple,
    rho_from_epsilon,
)

__all__ = [
    "Amount",
    "Budget",
    "Composition",
    "PrivacyLoss",
    "epsilon_from_zcdp",
    "epsilon_simple",
    "rho_from_epsilon",
]

"""What is charged: privacy loss in integer units, and how losses compose."""

from dpsql.accounting.zcdp import Amount, Budget, Composition, PrivacyLoss

__all__ = ["Amount", "Budget", "Composition", "PrivacyLoss"]

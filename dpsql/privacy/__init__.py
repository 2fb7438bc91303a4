"""The mathematics of privacy: accounting, exact sampling, mechanisms, streams, and a calculator.

A library within the package: it knows no SQL, no engine and no ledger, and imports nothing of
dpsql but its errors.
"""

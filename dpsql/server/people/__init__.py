"""The people of a server: users and tokens, proofs of who one is, and what each may use.

``users`` keeps them in a file, ``records`` has what it returns. ``scram`` is the proof on
PostgreSQL's wire, ``passwords`` the preparation and the hashes of passwords, ``lockout`` slows
whoever guesses. Nothing here knows a network, a policy or a ledger.
"""

"""Routes of owners and auditors: users, accounts, policies, and what the server has recorded."""

"""Continual release: materialized views that are paid for once and refreshed step by step."""

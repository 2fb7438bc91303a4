"""Worlds, references and harnesses that several tests share."""

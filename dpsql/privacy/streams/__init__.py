"""Continual release: running histograms over many steps, one guarantee for all of them."""

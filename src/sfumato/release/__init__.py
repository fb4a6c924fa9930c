"""Aggregates and noise become estimates with intervals; tables, plots and exports of them."""

"""Saved dashboards: questions that are asked together, at one price per period, and shown as one page."""

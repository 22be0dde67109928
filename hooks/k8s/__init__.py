"""Kubernetes vocabulary as values: quantities, durations, objects as they come from an API server.

Nothing here knows of Noctaya's own kinds, and nothing does I/O.
"""

"""The data path of one LLMService: an OpenAI-compatible endpoint that outlives its backend.

A request goes one way: route -> admit -> read -> activate -> forward -> account
(``pipeline.serve``). What decides without I/O (``route``, ``admission``, ``demand``, ``replicas``,
``waiting``, ``dialects``) takes the time as an argument; what talks to the world (``upstream``,
``probing``, ``sources``, ``scaler``, ``server``) decides nothing.
"""

"""The Decorator `inferenceruntime-status`: whether an InferenceRuntime can be used, in its status.

Attaches nothing. A runtime is read by the code that reads it for a service, so that a mistake shows
on the runtime itself, before a service fails on it.
"""

"""KEDA's ExternalScaler contract; the ``_pb2`` files are generated from the ``.proto`` beside them.

``python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. \
gateway/proto/externalscaler.proto``, in the repository's root, makes them; a test compares.
"""

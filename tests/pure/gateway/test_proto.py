"""The generated files are what the committed ``.proto`` gives, and it is KEDA's contract."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from gateway.proto import externalscaler_pb2 as pb

ROOT = Path(__file__).parents[3]
PROTO = Path("gateway/proto/externalscaler.proto")


@pytest.mark.parametrize("name", ["_pb2.py", "_pb2.pyi", "_pb2_grpc.py"])
def test_generated_files_are_up_to_date(name: str, tmp_path: Path) -> None:
    (tmp_path / PROTO.parent).mkdir(parents=True)
    shutil.copy(ROOT / PROTO, tmp_path / PROTO)
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{tmp_path}", *outputs]
    subprocess.run([*protoc, str(tmp_path / PROTO)], check=True)
    fresh = (tmp_path / PROTO.parent / f"externalscaler{name}").read_text()
    assert fresh == (ROOT / PROTO.parent / f"externalscaler{name}").read_text()


def test_names_and_numbers_are_kedas() -> None:
    """As published by KEDA 2.20; a wrong number is silence on the wire, not an error."""
    file = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    assert file.package == "externalscaler"
    (service,) = file.service
    calls = {m.name: (m.input_type, m.output_type, m.server_streaming) for m in service.method}
    reference, request = ".externalscaler.ScaledObjectRef", ".externalscaler.GetMetricsRequest"
    assert calls == {
        "IsActive": (reference, ".externalscaler.IsActiveResponse", False),
        "StreamIsActive": (reference, ".externalscaler.IsActiveResponse", True),
        "GetMetricSpec": (reference, ".externalscaler.GetMetricSpecResponse", False),
        "GetMetrics": (request, ".externalscaler.GetMetricsResponse", False),
    }
    fields = {m.name: {f.name: f.number for f in m.field} for m in file.message_type}
    assert fields == {
        "ScaledObjectRef": {"name": 1, "namespace": 2, "scalerMetadata": 3},
        "IsActiveResponse": {"result": 1},
        "GetMetricSpecResponse": {"metricSpecs": 1},
        "MetricSpec": {"metricName": 1, "targetSize": 2, "targetSizeFloat": 3},
        "GetMetricsRequest": {"scaledObjectRef": 1, "metricName": 2},
        "GetMetricsResponse": {"metricValues": 1},
        "MetricValue": {"metricName": 1, "metricValue": 2, "metricValueFloat": 3},
    }

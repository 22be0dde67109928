"""Ascend: whole NPUs, which the runtime's device plugin hands out."""

from hooks.api.runtime import Accelerator
from hooks.k8s import quantity


def devices(accelerator: Accelerator, count: int) -> dict[str, str]:
    """The plugin's resource, once for each NPU; its name tells the generation of the chip."""
    return {accelerator.resource_name: quantity.canonical(str(count))}

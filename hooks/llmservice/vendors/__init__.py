"""What a vendor's accelerators need of a Pod: one small module for each vendor.

A module says how whole devices are asked for. All else that differs between vendors is an
InferenceRuntime's own business: images, arguments, environments, node selectors, tolerations and
schedulers are the administrator's choice.
"""

from typing import Protocol

from hooks.api.runtime import Accelerator
from hooks.llmservice.vendors import ascend, nvidia


class Vendor(Protocol):
    """The shape of a vendor's module."""

    def devices(self, accelerator: Accelerator, count: int) -> dict[str, str]:
        """The resources that ``count`` whole devices are, equal in requests and limits."""


# By `spec.vendor`.
KNOWN: dict[str, Vendor] = {"ascend": ascend, "nvidia": nvidia}

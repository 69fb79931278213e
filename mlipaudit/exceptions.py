# SPDX-License-Identifier: Apache-2.0
"""Where mlipaudit 0.1.x keeps its exceptions."""

from mlipaudit.errors import ChemicalElementsMissingError

__all__ = ["ChemicalElementsMissingError"]

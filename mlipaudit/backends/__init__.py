# SPDX-License-Identifier: Apache-2.0
"""How one kind of force field is executed: one file per kind, one contract. The only place that imports jax."""

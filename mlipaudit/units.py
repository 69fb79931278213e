# SPDX-License-Identifier: Apache-2.0
"""Unit conversions that benchmarks need without importing ase."""

KCAL_MOL_PER_EV = 23.060548012069496
"""CODATA 2014, as `ase.units` has it."""

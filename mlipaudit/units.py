# SPDX-License-Identifier: Apache-2.0
"""Unit conversions that benchmarks need without importing ase."""

KCAL_MOL_PER_EV = 23.060548012069496
"""CODATA 2014, as `ase.units` has it."""
KELVIN_PER_EV = 11604.522060401008
"""One over Boltzmann's constant, CODATA 2014."""

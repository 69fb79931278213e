# SPDX-License-Identifier: Apache-2.0
"""Abstract benchmarks, each of which owns one way of asking a model."""

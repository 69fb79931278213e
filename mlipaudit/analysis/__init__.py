# SPDX-License-Identifier: Apache-2.0
"""Array to array: numpy and scipy only."""

# SPDX-License-Identifier: Apache-2.0
"""Broken models, and the proof that none of them scores well or costs another model anything."""

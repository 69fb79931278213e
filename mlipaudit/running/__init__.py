# SPDX-License-Identifier: Apache-2.0
"""Plan, executor, worker: a run is a plan of tasks; executing it emits events and prints nothing."""

# SPDX-License-Identifier: Apache-2.0
"""Records to tidy rows to what people look at. Names no benchmark."""

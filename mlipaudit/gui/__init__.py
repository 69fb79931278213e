# SPDX-License-Identifier: Apache-2.0
"""The pages of a report in a browser, live: filters, every system, and a results folder that is being written.

Nothing but `cli/gui.py` starts it, and nothing else imports streamlit.
"""

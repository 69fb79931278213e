# SPDX-License-Identifier: Apache-2.0
"""The script that Streamlit runs for every view, again and again; all that is slow or kept lies in modules.

Its arguments are the results folder and, where there is one, the folder with input data.
"""

import sys
from pathlib import Path

from mlipaudit.gui.site import show

show(*map(Path, sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""`python -m mlipaudit`."""

import sys

from mlipaudit.cli import main

if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""`mlipaudit gui`: the pages of a report in a browser, live."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "look at a results folder in the browser, also while it is being written"
ANYWHERE = ("0.0.0.0", "::", "")
MAX_PORT = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "results", nargs="?", default="results", type=Path, metavar="DIR", help="results folder (default: results)"
    )
    parser.add_argument("--port", type=_port, default=8501, metavar="N", help="default: 8501; 0 is any free one")
    parser.add_argument(
        "--address",
        default="127.0.0.1",
        metavar="HOST",
        help="where it can be reached; the default is this machine alone, 0.0.0.0 is every network, without a password",
    )
    parser.add_argument("--no-browser", action="store_true", help="open no browser")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="folder with the input data, for results on a folder of your own"
    )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to {MAX_PORT})")
    return int(text)


def main(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from importlib.util import find_spec

    from mlipaudit.errors import UsageError

    if find_spec("streamlit") is None:
        raise UsageError('the browser pages need streamlit; type: pip install "mlipaudit[gui]"')
    port = free_port(args.address, args.port)
    print(f"{args.results} is shown at {_url(args.address, port)} (Ctrl-C ends it)", flush=True)
    _serve(args, port)
    return 0


def free_port(address: str, port: int) -> int:
    """The port, after it was tried; for 0 one that is free.

    Raises:
        UsageError: it cannot be used.
    """
    import socket

    from mlipaudit.errors import UsageError

    try:
        family, *_, where = socket.getaddrinfo(
            address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As the server itself does it: a port whose last connections are still closing is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
            return probe.getsockname()[1]
    except OSError as error:
        advice = "choose another --port (0 is any free one) or --address"
        message = f"cannot serve at {address}, port {port}: {error.strerror}; {advice}"
        raise UsageError(message) from error


def _url(address: str, port: int) -> str:
    import socket

    host = socket.gethostname() if address in ANYWHERE else address
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _serve(args: argparse.Namespace, port: int) -> None:
    """Let streamlit run the script, quietly, in this process."""
    from streamlit.web import cli

    import mlipaudit.gui

    options = {
        "server.address": args.address,
        "server.port": port,
        "server.fileWatcherType": "none",
        "server.runOnSave": False,
        "server.showEmailPrompt": False,
        "browser.gatherUsageStats": False,
        "browser.serverAddress": args.address,
        "client.toolbarMode": "minimal",
        "client.showErrorLinks": False,
        "global.developmentMode": False,
        "logger.level": "warning",
        "logger.hideWelcomeMessage": True,
        "theme.light.primaryColor": "#0072B2",
        "theme.dark.primaryColor": "#0072B2",
    } | ({"server.headless": True} if args.no_browser else {})
    script = Path(mlipaudit.gui.__file__).with_name("app.py")
    words = [
        f"--{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in options.items()
    ]
    folders = map(str, filter(None, (args.results, args.data)))
    cli.main(["run", str(script), *words, "--", *folders], standalone_mode=False)

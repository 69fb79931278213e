# SPDX-License-Identifier: Apache-2.0
"""A hub of our own: speaks to the real `huggingface_hub` client through HF_ENDPOINT, and fails as it is told.

Like the public one it answers `/api/datasets/<repo>/revision/<rev>` with the commit, and `/datasets/<repo>/resolve/...`
with the file's sha256 and a redirect to a second server (the content network), which knows Range requests.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import threading
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

REPOSITORY = "InstaDeepAI/MLIPAudit-data"
_API = re.compile(rf"/api/datasets/{REPOSITORY}/revision/([^/?]+)")
_RESOLVE = re.compile(rf"/datasets/{REPOSITORY}/resolve/([^/?]+)/([^?]+)")
_PIECE_BYTES = 1 << 16


class Request(NamedTuple):
    """One request that arrived."""

    method: str
    path: str
    range: str | None
    """The `Range` header."""


@dataclass
class Faults:
    """What goes wrong, and how often."""

    status: int | None = None
    """Every request of the hub is answered with this."""
    error_code: str | None = None
    """Given with `status`, as the hub names its errors."""
    download_status: int | None = None
    """Every request of the content network is answered with this."""
    cut_after: int | None = None
    """Bytes of a response after which the connection is cut."""
    cuts: int = 1
    """How many responses are cut."""
    stall_after: int | None = None
    """Bytes of a response after which nothing more comes, while the connection stays."""
    wrong_content: bool = False
    """Other bytes of the right length."""
    seconds_per_piece: float = 0.0
    """Pause after every 64 KiB."""
    silent: bool = False
    """The hub takes requests and answers nothing."""
    not_a_hub: bool = False
    """Every request is answered with a page for people."""


class HubServer:
    """Two servers in threads, on ports of this machine."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.commits: dict[str, dict[str, bytes]] = {}
        self.refs: dict[str, str] = {}
        self.faults = Faults()
        self.bytes_sent = 0
        self.closed = threading.Event()
        self._servers = [_serve(_Hub, self), _serve(_ContentNetwork, self)]
        self.url, self.content_url = (f"http://127.0.0.1:{server.server_port}" for server in self._servers)

    def close(self) -> None:
        """Stop; the ports are free afterwards, and connections are refused."""
        self.closed.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def publish(self, archives: Mapping[str, bytes], *, ref: str = "main") -> str:
        """A new commit with these archives, by data name; the branch moves to it."""
        commit = hashlib.sha1(repr((sorted(archives.items()), len(self.commits))).encode()).hexdigest()
        self.commits[commit] = {f"{name}.zip": content for name, content in archives.items()}
        self.refs[ref] = commit
        return commit

    def downloads(self) -> list[Request]:
        """Requests for bytes of a file."""
        return [request for request in self.requests if request.path.startswith("/content/")]


def archive_of(files: Mapping[str, bytes], *, stored: bool = False) -> bytes:
    """A zip archive with these members, always the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            how = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=how)
    return packed.getvalue()


def _serve(handler: type[_Handler], hub: HubServer) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type(handler.__name__, (handler,), {"hub": hub}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._take()

    def do_GET(self) -> None:
        self._take()

    def log_message(self, *_: object) -> None:
        pass

    def _take(self) -> None:
        self.hub.requests.append(Request(self.command, self.path, self.headers.get("Range")))
        self.answer()

    def answer(self) -> None:
        raise NotImplementedError

    def reply(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


class _Hub(_Handler):
    """huggingface.co"""

    def answer(self) -> None:
        faults = self.hub.faults
        if faults.silent:
            self.hub.closed.wait()
        elif faults.not_a_hub:
            self.reply(200, {"Content-Type": "text/html"}, b"<html>please log in to the guest network</html>")
        elif faults.status is not None:
            self.fail(faults.status, faults.error_code)
        elif found := _API.match(self.path):
            self.tell_commit(found[1])
        elif found := _RESOLVE.match(self.path):
            self.resolve(found[1], found[2])
        else:
            self.fail(404, "RepoNotFound")

    def fail(self, status: int, code: str | None) -> None:
        self.reply(status, {"X-Error-Code": code} if code else {})

    def tell_commit(self, revision: str) -> None:
        commit = self.commit_of(revision)
        if commit is None:
            return self.fail(404, "RevisionNotFound")
        body = json.dumps({"id": REPOSITORY, "sha": commit, "siblings": [], "tags": []}).encode()
        self.reply(200, {"Content-Type": "application/json"}, body)

    def resolve(self, revision: str, file: str) -> None:
        commit = self.commit_of(revision)
        if commit is None:
            return self.fail(404, "RevisionNotFound")
        content = self.hub.commits[commit].get(file)
        if content is None:
            return self.fail(404, "EntryNotFound")
        etag = hashlib.sha256(content).hexdigest()
        headers = {
            "X-Repo-Commit": commit,
            "X-Linked-Etag": f'"{etag}"',
            "X-Linked-Size": str(len(content)),
            "Location": f"{self.hub.content_url}/content/{commit}/{file}",
        }
        self.reply(302, headers)

    def commit_of(self, revision: str) -> str | None:
        revision = revision.replace("%2F", "/")
        return revision if revision in self.hub.commits else self.hub.refs.get(revision)


class _ContentNetwork(_Handler):
    """Where the hub keeps large files."""

    def answer(self) -> None:
        faults, (commit, file) = self.hub.faults, self.path.split("/")[2:4]
        if faults.download_status is not None:
            return self.reply(faults.download_status, {})
        content = self.hub.commits[commit][file]
        if faults.wrong_content:
            content = content[:-1] + bytes([content[-1] ^ 1])
        start = int(re.fullmatch(r"bytes=(\d+)-", self.headers["Range"])[1]) if self.headers["Range"] else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        self.send_content(content[start:])

    def send_content(self, content: bytes) -> None:
        faults, end = self.hub.faults, len(content)
        if faults.cut_after is not None and faults.cuts > 0:
            faults.cuts -= 1
            end = min(end, faults.cut_after)
        if faults.stall_after is not None:
            end = min(end, faults.stall_after)
        for begin in range(0, end, _PIECE_BYTES):
            piece = content[begin : min(begin + _PIECE_BYTES, end)]
            try:
                self.wfile.write(piece)
            except OSError:  # the client is gone
                self.close_connection = True
                return
            self.hub.bytes_sent += len(piece)
            time.sleep(faults.seconds_per_piece)
        if faults.stall_after is not None:
            self.hub.closed.wait()
        if end < len(content):
            self.close_connection = True

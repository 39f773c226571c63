"""A small server on loopback: the page, its data, uploads, and events of runs that go on.

It answers its own page alone. A request with another Host (a name that was made to point here) or from another Origin
is refused, and every answer has a strict Content-Security-Policy. Files come from the package's page folder, by a fixed
list of names, and from the folders of ``Api``.
"""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from hypersphere.explorer.api import Answer, Api, as_error, as_json
from hypersphere.explorer.export import page_files
from hypersphere.explorer.uploads import TooLargeError

LOOPBACK = "127.0.0.1"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
PIECE = 2**16  # bytes read or sent at once
LONGEST_PATH = 4096  # characters of a request's path with its query
MOST_WORDS = 40  # of a query
DRAINED = 2**31  # bytes of a refused upload that are read and dropped, so that the browser reads the answer
DRAIN_SECONDS = 60.0
IDLE_SECONDS = 60.0  # after which a silent connection is closed
LISTENERS = 32  # pages that follow runs at the same time
LOOK_SECONDS = 1.0  # between two looks at the folders
BEAT_SECONDS = 15.0  # between signs of life on an open stream of events
PORTS = 50  # tried one after the other when one is in use
IN_USE = (errno.EADDRINUSE, errno.EACCES)


class Server(ThreadingHTTPServer):
    """One server for all tabs; ``close`` ends it and removes the uploads."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = os.name == "posix"  # elsewhere it would share a port that is in use

    def __init__(self, address: tuple[str, int], uploads: Path, **given: Any) -> None:
        self.api = Api(uploads, **given)
        self.files = page_files()
        self.closing = threading.Event()
        self._listeners = threading.BoundedSemaphore(LISTENERS)
        self._seen: tuple[float, dict[str, tuple[int, int]]] = (0.0, {})  # when to look again, and the last snapshot
        self._look = threading.Lock()
        self._uploads = uploads
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, Handler)

    @property
    def url(self) -> str:
        host = str(self.server_address[0])
        shown = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)
        return f"http://{f'[{shown}]' if ':' in shown else shown}:{self.server_address[1]}/"

    def own_host(self, host: str) -> bool:
        """Whether a Host header names this server: loopback or the address it listens on, with its port.

        A server that listens on all addresses accepts any address written in digits, which no other name can fake.
        """
        try:
            parts = urlsplit(f"//{host}")
            name, port = (parts.hostname or "").rstrip("."), parts.port or 80
        except ValueError:
            return False
        if port != self.server_address[1] or parts.username is not None or parts.path or parts.query:
            return False
        bound = str(self.server_address[0])
        if name in ("localhost", LOOPBACK, "::1", bound):
            return True
        return bound in ("0.0.0.0", "::") and _is_address(name)

    def changes(self) -> dict[str, tuple[int, int]]:
        """The latest snapshot of the folders, about a second old; all listeners share it. Looking at large folders
        takes at most a tenth of the time."""
        with self._look:
            began = time.monotonic()
            if began >= self._seen[0]:
                snapshot = self.api.snapshot()
                ended = time.monotonic()
                self._seen = ended + max(LOOK_SECONDS, 9 * (ended - began)), snapshot
            return self._seen[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no error."""

    def close(self) -> None:
        self.closing.set()
        self.server_close()
        shutil.rmtree(self._uploads, ignore_errors=True)


def start_server(host: str = LOOPBACK, port: int = 0, **given: Any) -> Server:
    """A server that listens; ``serve_forever`` answers. If the port is in use, it takes the next free one."""
    uploads = Path(tempfile.mkdtemp(prefix="hypersphere-"))
    last: OSError | None = None
    for candidate in range(port, min(port + PORTS, 65536)) if port else (0,):
        try:
            return Server((host, candidate), uploads, **given)
        except OSError as error:
            last = error
            if not port or error.errno not in IN_USE:
                break
    shutil.rmtree(uploads, ignore_errors=True)
    why = "unknown" if last is None else last.strerror or str(last)
    raise OSError(f"no server can listen on {host}, port {port}: {why}") from last


class Handler(BaseHTTPRequestHandler):
    """One connection of a browser."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS

    def version_string(self) -> str:
        return "hypersphere"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: the terminal belongs to the user."""

    def end_headers(self) -> None:
        """Adds the headers that every answer has."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if not getattr(self, "_has_policy", False):
            self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """A request that the library refuses: one sentence as well."""
        self.close_connection = True
        self._send(as_error(message or "the request cannot be answered", int(code)))

    # --- questions

    def do_GET(self) -> None:
        if (asked := self._asked()) is None:
            return
        path, query = asked
        if path == "/api/events":
            self._follow()
        elif path.startswith("/api/"):
            self._send(self.server.api.get(path.removeprefix("/api/"), query))
        elif path == "/favicon.ico":
            self._send(Answer(status=204))
        else:
            known = self.server.files.get("index.html" if path == "/" else path.removeprefix("/"))
            self._send(as_error("there is nothing of that name here", 404) if known is None else Answer(*known))

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        if (asked := self._asked()) is None:
            return
        (path, query), api = asked, self.server.api
        if path != "/api/embeddings":
            self.close_connection = True
            self._send(as_error("there is nothing of that name here", 404))
            return
        pieces = self._pieces()
        try:
            api.uploads.check_name(query.get("name", ""))
            if not self._chunked and self._length() > api.uploads.largest:
                raise api.uploads.too_large()
            answer = as_json(api.upload(query["name"], pieces))
        except (ValueError, OSError) as error:
            answer = as_error(str(error), 413 if isinstance(error, TooLargeError) else 400)
            self.close_connection = True
            self._drain(pieces)
        self._send(answer)

    def _asked(self) -> tuple[str, dict[str, str]] | None:
        """Path and query of a request from this server's own page, or from a program on this machine; any other
        request is refused here."""
        try:
            parts = urlsplit(self.path)
            path, query = unquote(parts.path), dict(parse_qsl(parts.query, max_num_fields=MOST_WORDS))
        except ValueError:
            path, query = "", {}
        if words := self._refusal(path):
            self.close_connection = True
            self._send(as_error(*words))
            return None
        return path, query

    def _refusal(self, path: str) -> tuple[str, int] | None:
        """Why a request is refused, and with which status."""
        hosts, origin = self.headers.get_all("Host") or [], self.headers.get("Origin")
        own = origin is None or (origin.startswith("http://") and self.server.own_host(origin.removeprefix("http://")))
        if len(self.path) > LONGEST_PATH:
            return "the address is too long", 414
        if len(hosts) != 1 or not self.server.own_host(hosts[0]):
            return "this server answers under its own address alone", 421
        if not own or (path != "/" and self.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site")):
            return "this server answers its own page alone", 403
        return None if path else ("the address cannot be read", 400)

    # --- a body that arrives

    def _pieces(self) -> Iterator[bytes]:
        """The body, a piece at a time: by its length, or in chunks."""
        if self._chunked:
            yield from self._chunks()
            return
        left = self._length()
        while left > 0:
            piece = self.rfile.read(min(PIECE, left))
            if not piece:
                raise ValueError("the upload ended too early")
            left -= len(piece)
            yield piece

    @property
    def _chunked(self) -> bool:
        return "chunked" in (self.headers.get("Transfer-Encoding") or "").lower()

    def _length(self) -> int:
        word = self.headers.get("Content-Length") or ""
        if not word.isdecimal() or len(word) > 15:
            raise ValueError("an upload needs its length, or chunks")
        return int(word)

    def _chunks(self) -> Iterator[bytes]:
        while True:
            word = self.rfile.readline(128).split(b";")[0].strip()
            try:
                left = int(word, 16) if len(word) <= 8 else -1
            except ValueError:
                left = -1
            if left < 0:
                raise ValueError("the upload is damaged: a chunk has no length")
            if left == 0:
                while self.rfile.readline(1024).strip():  # trailers
                    pass
                return
            while left:
                piece = self.rfile.read(min(PIECE, left))
                if not piece:
                    raise ValueError("the upload ended too early")
                left -= len(piece)
                yield piece
            self.rfile.readline(8)

    def _drain(self, pieces: Iterator[bytes]) -> None:
        """Drops what is still sent: a browser reads the answer only after it has sent its file."""
        end, left = time.monotonic() + DRAIN_SECONDS, DRAINED
        with suppress(ValueError, OSError):
            for piece in pieces:
                left -= len(piece)
                if left < 0 or time.monotonic() > end:
                    return

    # --- answers

    def _send(self, answer: Answer) -> None:
        size = len(answer.body) if answer.path is None else answer.path.stat().st_size
        try:
            self._has_policy = bool(answer.policy)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(size))
            if answer.policy:
                self.send_header("Content-Security-Policy", answer.policy)
            if answer.name:
                self.send_header("Content-Disposition", f"attachment; filename*=UTF-8''{quote(answer.name, safe='')}")
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command == "HEAD":
                return
            if answer.path is None:
                self.wfile.write(answer.body)
            else:
                with answer.path.open("rb") as file:
                    shutil.copyfileobj(file, self.wfile, PIECE)
        finally:
            if answer.temporary and answer.path is not None:
                answer.path.unlink(missing_ok=True)

    def _follow(self) -> None:
        """Server-sent events: the ids of runs and studies whose files have changed."""
        self.close_connection = True
        if not self.server._listeners.acquire(blocking=False):
            self._send(as_error(f"{LISTENERS} pages follow runs already; close one of them", 503))
            return
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.send_header("Connection", "close")
            self.end_headers()
            if self.command == "HEAD":
                return
            self._events()
        finally:
            self.server._listeners.release()

    def _events(self) -> None:
        before, beat = self.server.changes(), time.monotonic()
        self._write("event: ready\ndata: {}\n\n")
        while not self.server.closing.wait(LOOK_SECONDS / 2):
            now = self.server.changes()
            ids = [name for name in now if now[name] != before.get(name)] + [name for name in before if name not in now]
            before = now
            if ids:
                self._write(f"event: changed\ndata: {json.dumps({'ids': ids})}\n\n")
            elif time.monotonic() - beat > BEAT_SECONDS:
                self._write(": here\n\n")
            else:
                continue
            beat = time.monotonic()

    def _write(self, words: str) -> None:
        self.wfile.write(words.encode())
        self.wfile.flush()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

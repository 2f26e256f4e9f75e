"""A hub of models on this machine, which speaks the API of Hugging Face's as far as `reprise pull` needs it."""

import hashlib
import http.server
import json
import re
import threading

TOKEN = "hf_a-token-of-ours"


class Hub(http.server.ThreadingHTTPServer):
    """Speaks the hub's API. What goes wrong is set by the test that wants it."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {}  # "owner/model" -> {path: bytes}
        self.requests = []
        self.break_after = None  # bytes of an answer, once
        self.wrong_bytes = False
        self.extra = []  # entries of a list that are no files
        self.private = False
        self.elsewhere = None  # the address that files are sent to us from
        self.ignores_range = False
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        limit = self.server.break_after
        if limit is not None and len(body) > limit:
            self.server.break_after = None
            self.wfile.write(body[:limit])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)
            return
        self.wfile.write(body)

    def do_GET(self):
        hub = self.server
        hub.requests.append((self.path, dict(self.headers)))
        if hub.private and self.headers.get("Authorization") != "Bearer " + TOKEN:
            return self.answer(401)
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^?]+)\?recursive=true", self.path):
            files = hub.files.get(found.group(1))
            if files is None:
                return self.answer(404)
            listed = [{"type": "directory", "path": "folder", "size": 0}, *hub.extra]
            for path, data in files.items():
                entry = {"type": "file", "path": path, "size": len(data), "oid": "0" * 40}
                if not path.endswith(".json"):
                    entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data)}
                listed.append(entry)
            return self.answer(200, json.dumps(listed).encode())
        found = re.fullmatch(r"/(?:cdn/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path)
        data = found and hub.files.get(found.group(1), {}).get(found.group(3))
        if data is None:
            return self.answer(404)
        if hub.elsewhere and not self.path.startswith("/cdn/"):
            return self.answer(302, headers=[("Location", hub.elsewhere + "/cdn" + self.path)])
        if hub.wrong_bytes:
            data = bytes(len(data))
        begin = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if begin and not hub.ignores_range:
            begin = int(begin.group(1))
            if begin >= len(data):
                return self.answer(416)
            return self.answer(206, data[begin:], [("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")])
        return self.answer(200, data)

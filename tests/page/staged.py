"""A server for tests of the page: the page's files as they are in protocol/page, under the policy that the program sends them
with, and an API that does what the test asks for.

A reply follows from the last message: `die` ends the connection in the middle, `fail` is refused, `step` waits before each of
its parts until the test has asked for one (POST /stage/step), `say: TEXT` has this text; anything else is echoed. GET /stage/requests has the
requests of chats, POST /stage/set changes what is served: {"models": [...], "cache": {...}, "context": 4096}.
"""

import http.server
import json
import re
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "protocol" / "page"
LIBRARIES = {"katex.js": "/usr/share/javascript/katex/katex.js", "hljs.js": "/usr/share/javascript/highlight.js/highlight.min.js"}
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".svg": "image/svg+xml"}
PATIENCE = 60  # seconds, for a step that the test asks for


def policy():
    source = (ROOT / "protocol" / "http" / "pages.cc").read_text()
    return "".join(re.findall(r'"([^"]*)"', re.search(r"kPagePolicy =(.*?);\n\n", source, re.S)[1]))


def model(name="staged"):
    return {"id": name, "object": "model", "state": "ready", "max_model_len": 4096}


class Staged:
    def __init__(self):
        self.lock = threading.Lock()
        self.steps = threading.Semaphore(0)
        self.reset()
        stage = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                stage.get(self)

            def do_POST(self):
                length = int(self.headers.get("Content-Length") or 0)
                stage.post(self, json.loads(self.rfile.read(length) or b"{}"))

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def reset(self):
        with self.lock:
            self.models, self.cache, self.requests = [model()], {"scope": "all", "models": [], "tiers": []}, []
            before, self.steps = self.steps, threading.Semaphore(0)
        before.release(100)  # replies that nobody waits for any more come to their end

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    # -- answers

    @staticmethod
    def send(request, body, kind="application/json", status=200, headers=()):
        request.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *headers):
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    def send_json(self, request, value, status=200):
        self.send(request, json.dumps(value).encode(), status=status)

    def get(self, request):
        path = request.path.split("?")[0]
        if path == "/v1/models":
            return self.send_json(request, {"object": "list", "data": self.models})
        if path == "/v1/cache":
            return self.send_json(request, self.cache)
        if path == "/stage/requests":
            return self.send_json(request, self.requests)
        name = "index.html" if path == "/" else path.removeprefix("/page/")
        if name.startswith("vendor/"):
            file = Path(LIBRARIES.get(name.removeprefix("vendor/"), "none"))
            return self.send(request, file.read_bytes() if file.is_file() else b"", TYPES[".js"])
        file = PAGE / name
        if "/" in name or not file.is_file():
            return self.send_json(request, {"error": {"message": "not found"}}, 404)
        self.send(request, file.read_bytes(), TYPES[file.suffix], headers=(("Content-Security-Policy", policy()),))

    def post(self, request, body):
        if request.path == "/stage/step":
            self.steps.release()
        elif request.path == "/stage/reset":
            self.reset()
        elif request.path == "/stage/set":
            with self.lock:
                self.models = body.get("models", self.models)
                self.cache = body.get("cache", self.cache)
        elif request.path == "/v1/models/load":
            with self.lock:
                self.models = [*self.models, model(body["model"])]
                self.cache = {"scope": "all", "models": [{"model": body["model"], "state": "ready", "cached": False}], "tiers": []}
        elif request.path == "/chat/completions":
            return self.chat(request, body)
        else:
            return self.send_json(request, {"error": {"message": "not found"}}, 404)
        self.send_json(request, {})

    def chat(self, request, body):
        with self.lock:
            self.requests.append(body)
            served = bool(self.models)
        last = body["messages"][-1]
        words = last["content"] if last["content"].startswith("say: ") else last["content"].split("\n\n")[-1]
        if not served:
            return self.send_json(request, {"error": {"message": "no model is loaded"}}, 404)
        if words == "fail":
            return self.send_json(request, {"error": {"message": "the device is on fire"}}, 500)
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.send_header("Connection", "close")
        request.end_headers()
        request.close_connection = True
        try:
            self.stream(request, words, last["role"] == "assistant")
        except (BrokenPipeError, ConnectionResetError):
            pass

    def stream(self, request, words, goes_on):
        def event(**fields):
            data = fields if "data" not in fields else fields["data"]
            request.wfile.write(b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n")
            request.wfile.flush()

        steps = self.steps

        def step():
            if words == "step" and not steps.acquire(timeout=PATIENCE):
                raise BrokenPipeError

        text = " and the rest." if goes_on else words[5:] if words.startswith("say: ") else \
            "One two three four." if words in ("step", "die") else "You said: " + words
        for processed in (100, 400, 900):
            step()
            event(choices=[], prompt_progress={"total": 1000, "cache": 100, "processed": processed, "time_ms": 1})
        parts = re.findall(r"\s*\S+\s*", text)
        timings = {}
        for i, part in enumerate(parts):
            step()
            timings = {"cache_n": 100, "prompt_n": 900, "prompt_ms": 9.0, "predicted_n": i + 1, "predicted_ms": 20.0 * (i + 1),
                       "predicted_per_second": 50.0}
            event(model="staged", choices=[{"index": 0, "delta": {"content": part}, "finish_reason": None}], timings=timings)
            if words == "die" and i == 1:
                return
        step()
        event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
        event(choices=[], usage={"prompt_tokens": 1000, "completion_tokens": len(parts)}, timings=timings,
              reprise={"restored_tokens": 100, "prefilled_tokens": 900, "miss_reason": "none", "miss_position": 100, "lost_tokens": 0,
                       "restored_from": "history", "restored_tier": "device", "waited_for_other": False, "queued_ms": 1.0,
                       "prefill_ms": 9.0, "first_token_ms": 12.0, "decode_ms": 80.0})
        event(data=b"[DONE]")


if __name__ == "__main__":  # to look at the page while it is written
    with Staged() as staged:
        print(staged.url, flush=True)
        threading.Event().wait()

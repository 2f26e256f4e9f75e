#!/usr/bin/env python3
"""Runs coding agents (Claude Code, Codex, opencode) in sessions of two turns against a server, through a proxy that records what
they ask and forces a harmless tool call in their first two requests. Asked for: no request is refused; each request of a session
is recognized at least as far as the prompt before it and, behind a forced call, to the end of that call; at most 256 of the
recognized tokens are computed again.

usage: run.py REPRISE FOLDER [--template FILE] [--latest] [claude|codex|opencode]...

FOLDER takes the npm packages, in the versions of package.json; --latest takes the newest, and reports without judging. The model is
the built-in one with a longer context: what it says makes no sense, but requests, calls and results are the agents' own. Prints a
table of the requests in Markdown.
"""

import argparse
import http.client
import http.server
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import node_client  # noqa: E402
from server import Server  # noqa: E402

BUILTIN = HERE.parent.parent / "models/builtin"
MODEL = "qwen3.5"
ALLOWED_AGAIN = 256  # known tokens that may be computed again
SLACK = 16           # tokens of a turn's end that only the template decides
FIRST, SECOND = "Fix the bug in calc.py", "Now add a test"
FORCED_CALLS = 2     # of the first turn
MAX_TOKENS = 400     # of a reply: the model does not know when to end
MAX_TOKENS_RESPONSES = 6000  # Codex gives up where a reply is cut


class Agent:
    """How one is started; `tool` is the tool that is forced, with the argument that may be one of a few values."""

    def __init__(self, package, program, tool, argument):
        self.package, self.program, self.tool, self.argument = package, program, tool, argument

    def values(self, project):
        return ["cat calc.py", "ls"] if self.argument == "cmd" else [f"{project}/calc.py", f"{project}/README.md"]


CPU = "arm64" if platform.machine() == "aarch64" else "x64"
AGENTS = {
    "claude": Agent("@anthropic-ai/claude-code", f"@anthropic-ai/claude-code-linux-{CPU}/claude", "Read", "file_path"),
    "codex": Agent("@openai/codex", ".bin/codex", "exec_command", "cmd"),
    "opencode": Agent("opencode-ai", f"opencode-linux-{CPU}/bin/opencode", "read", "filePath"),
}


def commands(name):
    """The arguments of both turns."""
    if name == "claude":
        return [["-p", FIRST, "--max-turns", "8", "--allowedTools", "Read"], ["-c", "-p", SECOND, "--max-turns", "8", "--allowedTools", "Read"]]
    if name == "codex":
        return [["exec", "--skip-git-repo-check", FIRST], ["exec", "resume", "--last", "--skip-git-repo-check", SECOND]]
    return [["run", "-m", f"reprise/{MODEL}", FIRST], ["run", "-c", "-m", f"reprise/{MODEL}", SECOND]]


def configure(home, project, url):
    """What a user writes for the three (docs/agents.md); returns the variables of their environment."""
    (home / ".codex").mkdir(parents=True)
    (home / ".codex/config.toml").write_text(f"""model = "{MODEL}"
model_provider = "reprise"
approval_policy = "never"
sandbox_mode = "read-only"

[model_providers.reprise]
name = "Reprise"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "REPRISE_KEY"
""")
    model = {"name": MODEL, "limit": {"context": 262144, "output": MAX_TOKENS}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "Reprise", "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
                "models": {MODEL: model}}
    (project / "opencode.json").write_text(json.dumps({
        "provider": {"reprise": provider}, "model": f"reprise/{MODEL}", "small_model": f"reprise/{MODEL}", "autoupdate": False,
        "share": "disabled", "permission": {"edit": "deny", "bash": "deny", "webfetch": "deny"}}))
    return {**os.environ, "HOME": str(home), "PWD": str(project), "IS_SANDBOX": "1", "REPRISE_KEY": "none",
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": "none", "ANTHROPIC_MODEL": MODEL, "ANTHROPIC_SMALL_FAST_MODEL": MODEL,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(MAX_TOKENS), "DISABLE_TELEMETRY": "1"}


class Recorder:
    """The proxy in front of the server."""

    def __init__(self, server):
        self.server, self.requests, self.agent, self.project, self.to_force = server, [], None, None, 0
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self):
                recorder.pass_on(self)

            do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = answer

        class Front(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

        self.front = Front(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.front.server_port}"
        threading.Thread(target=self.front.serve_forever, daemon=True).start()

    def shaped(self, path, body):
        """The body with a bounded reply, without reasoning and, where it is wanted, with a forced call; and whether it has that."""
        try:
            request = json.loads(body)
        except ValueError:
            return body, False
        forced = False
        for tool in request.get("tools") or []:
            described = tool.get("function", tool)
            if described.get("name") != self.agent.tool:
                continue
            # In every request alike, so that the prompt's beginning stays the same.
            schema = {"type": "object", "required": [self.agent.argument], "additionalProperties": False, "properties": {
                self.agent.argument: {"type": "string", "enum": self.agent.values(self.project)}}}
            described["input_schema" if "input_schema" in described else "parameters"] = schema
            if "responses" in path:
                described["strict"] = True
            forced = self.to_force > 0
        if "messages" in path:
            request.update(max_tokens=MAX_TOKENS, thinking={"type": "disabled"})
            choice = {"type": "tool", "name": self.agent.tool}
        elif "responses" in path:
            request.update(max_output_tokens=MAX_TOKENS_RESPONSES, reasoning={"effort": "none"})
            choice = {"type": "function", "name": self.agent.tool}
        else:
            request.update(max_tokens=MAX_TOKENS, reasoning_effort="none")
            choice = {"type": "function", "function": {"name": self.agent.tool}}
        if forced:
            self.to_force -= 1
            request["tool_choice"] = choice
            request.pop("parallel_tool_calls", None)
        return json.dumps(request).encode(), forced

    def pass_on(self, client):
        body = client.rfile.read(int(client.headers.get("Content-Length") or 0))
        forced = False
        if client.command == "POST":
            body, forced = self.shaped(client.path, body)
        headers = {name: value for name, value in client.headers.items()
                   if name.lower() not in ("host", "connection", "accept-encoding", "content-length")}
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=600)
        connection.request(client.command, client.path, body=body, headers={**headers, "Content-Length": str(len(body))})
        answer = connection.getresponse()
        client.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                client.send_header(name, value)
        client.send_header("Connection", "close")
        client.end_headers()
        received = b""
        while piece := answer.read1(65536):
            received += piece
            try:
                client.wfile.write(piece)
                client.wfile.flush()
            except OSError:
                break
        client.close_connection = True
        if client.command == "POST":
            has_tools = b'"tools"' in body and b'"tools": []' not in body
            self.requests.append({"path": client.path, "status": answer.status, "forced": forced, "has_tools": has_tools,
                                  "report": last_report(received), "text": received[:300].decode(errors="replace")})


def last_report(received):
    """The `reprise` object of an answer, whole or streamed, with the tokens of the reply."""
    found = {}

    def look(value):
        if isinstance(value, dict):
            if isinstance(value.get("reprise"), dict):
                usage = value.get("usage") or {}
                found.update(value["reprise"], reply=usage.get("completion_tokens") or usage.get("output_tokens") or 0)
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                look(item)

    for line in received.decode(errors="replace").splitlines():
        if '"reprise"' in line:
            try:
                look(json.loads(line.removeprefix("data:")))
            except ValueError:
                pass
    return found


def judge(request, before):
    """What is wrong with a request, and what the next one of its session is held to."""
    if request["status"] >= 400:
        return f"refused: {request['text']}", before
    report = request["report"]
    if not report or not request["has_tools"]:
        return "", before
    prompt = report["restored_tokens"] + report["prefilled_tokens"]
    known = report["restored_tokens"] if report["miss_reason"] == "none" else max(report["miss_position"], report["restored_tokens"])
    wrong = ""
    if before and known < before["prompt"] - SLACK:
        wrong = f"recognized up to {known}; the prompt before it had {before['prompt']}"
    elif before and before["forced"] and known < min(before["end"], prompt) - SLACK:
        wrong = f"the call before it ends at {before['end']} and is recognized up to {known}"
    elif report["lost_tokens"] > ALLOWED_AGAIN:
        wrong = f"{report['lost_tokens']} known tokens are computed again"
    return wrong, {"prompt": prompt, "end": prompt + report["reply"], "forced": request["forced"]}


def session(name, recorder, program, environment, project):
    """Both turns of one agent. Returns how many things were wrong."""
    recorder.agent, recorder.project, recorder.requests = AGENTS[name], str(project), []
    wrong = 0
    for turn, arguments in enumerate(commands(name)):
        recorder.to_force = 0 if turn else FORCED_CALLS
        ended = subprocess.run([program, *arguments], cwd=project, env=environment, capture_output=True, text=True, timeout=900,
                               stdin=subprocess.DEVNULL)
        if ended.returncode:
            wrong += 1
            print(f"{name}, turn {turn + 1}: exit status {ended.returncode}: {(ended.stderr or ended.stdout).strip()[-300:]}")
        for line in ended.stderr.splitlines():
            if "warning" in line.lower():
                print(f"{name}: {line.strip()}")
    before = None
    for number, request in enumerate(recorder.requests, 1):
        what, before = judge(request, before)
        wrong += bool(what)
        report = request["report"]
        cells = [name, number, request["path"].split("?")[0], "yes" if request["forced"] else "",
                 report.get("restored_tokens", ""), report.get("prefilled_tokens", ""), report.get("recognized_calls", ""),
                 f"{report['first_token_ms']:.0f}" if "first_token_ms" in report else "", what]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    if not recorder.requests:
        wrong += 1
        print(f"{name}: asked nothing")
    return wrong


def main():
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reprise")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--template", help="a chat template, in the place of the built-in model's")
    parser.add_argument("--latest", action="store_true")
    parser.add_argument("agents", nargs="*", metavar="AGENT")
    options = parser.parse_intermixed_args()
    folder = options.folder.resolve()
    node_client.install(HERE, folder)
    if options.latest:
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error",
                        *(f"{agent.package}@latest" for agent in AGENTS.values())], cwd=folder, check=True, stdout=sys.stderr, timeout=600)
    with tempfile.TemporaryDirectory() as scratch:
        model, project, home = (pathlib.Path(scratch, name) for name in ("model", "project", "home"))
        shutil.copytree(BUILTIN, model)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 262144}))
        if options.template:
            shutil.copy(options.template, model / "chat_template.jinja")
        project.mkdir()
        subprocess.run(["git", "init", "-q", str(project)], check=True)
        (project / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        (project / "README.md").write_text("# Calc\n")
        with Server(options.reprise, "--model", str(model), "--model-name", MODEL, "--state-mb", "3000") as server:
            server.wait_until_ready()
            recorder = Recorder(server)
            environment = configure(home, project, recorder.url)
            print("| agent | request | path | forced call | restored | prefilled | recognized calls | first token, ms | wrong |")
            print("|---|---|---|---|---|---|---|---|---|", flush=True)
            wrong = sum(session(name, recorder, folder / "node_modules" / AGENTS[name].program, environment, project)
                        for name in options.agents or AGENTS)
    print(f"{wrong} wrong")
    return 0 if options.latest else int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

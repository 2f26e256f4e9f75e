#!/usr/bin/env python3
"""Renders the conversations below with every template here and the built-in model's, by Jinja2 with the settings that
Hugging Face transformers gives it, into NAME.cases.json. To be run where a template or a conversation changes; wants
python3-jinja2. tests/protocol/jinja/oracle_test.cc compares our answers with these."""
import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

FOLDER = pathlib.Path(__file__).resolve().parent
BUILTIN = "../../../models/builtin/chat_template.jinja"
NOW = datetime.datetime(2026, 11, 14, 12)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("inside"), [], [], body).set_lineno(line)

    def inside(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
ENVIRONMENT.filters["tojson"] = to_json
ENVIRONMENT.globals.update(raise_exception=raise_exception, strftime_now=NOW.strftime)


def says(role, content, **more):
    return {"role": role, "content": content, **more}


def calls(name, arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


TOOLS = [
    {"type": "function", "function": {
        "name": "find_tide", "description": "Tides <of> a port & its bay.",
        "parameters": {"type": "object", "required": ["port"], "properties": {
            "port": {"type": "string", "description": "A port's name,\nas \"locals\" write it, with every accent that it has"},
            "state": {"type": "string", "enum": ["high", "low"]},
            "when": {"type": "object", "properties": {"day": {"type": "integer"}, "hour": {}}}}}}},
    {"type": "function", "function": {"name": "ring", "description": "Rings the bell.",
                                      "parameters": {"type": "object", "properties": {}}}},
]
TIDE = {"port": "Saint-Malo", "state": "high", "when": {"day": 3, "hour": 7.5}}
ASKED = [says("system", "  You answer sailors. "), says("user", "When is high water?")]
CASES = {
    "a question": {"messages": [says("user", "  Is it raining?\n")]},
    "a system message": {"messages": ASKED},
    "turns": {"messages": ASKED + [says("assistant", "At noon."), says("user", "And low water?")]},
    "no prompt for a reply": {"messages": ASKED + [says("assistant", "At noon.")], "add_generation_prompt": False},
    "letters": {"messages": [says("user", "Ünïcode 漢字 🙂 \t\"quoted\" <b>&amp;</b> \\n {{ x }} {% raw %}"),
                             says("assistant", "É"), says("user", "é\u0301\u2028.")]},
    "thoughts": {"messages": [says("user", "1?"), says("assistant", "<think>\nOne thought.\n</think>\n\nOne."),
                              says("user", "2?"), says("assistant", "Two.", reasoning_content="Two thoughts.\n")],
                 "add_generation_prompt": False},
    "without thoughts": {"messages": ASKED, "enable_thinking": False},
    "tools": {"messages": ASKED, "tools": TOOLS},
    "tools without a system message": {"messages": ASKED[1:], "tools": TOOLS},
    "a call": {"messages": [says("user", "High water at Saint-Malo?"),
                            says("assistant", "", tool_calls=[calls("find_tide", TIDE)]),
                            says("tool", "{\"time\": \"06:12\"}"), says("assistant", "At 06:12."),
                            says("user", "Thank you.")], "tools": TOOLS},
    "two calls": {"messages": [says("user", "Ring, and tell me the tide."),
                               says("assistant", "Both.", reasoning_content="Two at once.",
                                    tool_calls=[calls("ring", {}), calls("find_tide", TIDE)]),
                               says("tool", "rung"), says("tool", "06:12")], "tools": TOOLS},
    "parts": {"messages": [says("user", [{"type": "text", "text": "What is"}, {"type": "image"},
                                         {"type": "text", "text": "this?"}])]},
    "documents": {"messages": ASKED, "documents": [{"title": "tide tables", "text": " noon is HIGH "},
                                                   {"title": "an almanac", "text": "rain"}], "max_words": 7},
    "two system messages": {"messages": ASKED + [says("system", "Another."), says("user", "Well?")]},
    "an unknown role": {"messages": [says("user", "Hello."), says("oracle", "Hm.")]},
    "no messages": {"messages": []},
}


def rendered(source, context):
    try:
        return {"output": ENVIRONMENT.from_string(source).render(**context)}
    except Exception as error:  # whatever a template can raise is an answer, too
        return {"error": f"{type(error).__name__}: {error}"}


for path in [FOLDER / BUILTIN, *sorted(FOLDER.glob("*.jinja"))]:
    is_own = path.parent == FOLDER
    cases = []
    for name, more in CASES.items():
        context = {"bos_token": "<s>", "eos_token": "</s>", "tools": None, "documents": None, "add_generation_prompt": True} | more
        cases.append(json.dumps({"case": name, "context": context} | rendered(path.read_text(), context), ensure_ascii=False))
    head = json.dumps({"template": path.name if is_own else BUILTIN, "reference": f"Jinja2 {jinja2.__version__}"})
    text = head[:-1] + ', "cases": [\n' + ",\n".join(cases) + "\n]}\n"
    (FOLDER / ((path.stem if is_own else "builtin") + ".cases.json")).write_text(text, encoding="utf-8")

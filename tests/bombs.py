"""Requests of less than 4 KiB that would expand without end if nothing bounded them. BOMBS: name -> (path, body).

Each must be refused with a 400 that names the limit it exceeds (names_a_limit), within seconds of the thread that compiles it.
"""

import json
import re


def chat(**fields):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, **fields}


def regex(pattern):
    return chat(structured_outputs={"regex": pattern})


def gbnf(text):
    return chat(grammar=text)


def lark(text):
    form = {"type": "grammar", "syntax": "lark", "definition": text}
    return "/v1/responses", {"input": "hi", "tools": [{"type": "custom", "name": "f", "format": form}],
                             "tool_choice": "required", "max_output_tokens": 16}


def schema(value):
    return chat(response_format={"type": "json_schema", "json_schema": {"name": "s", "strict": True, "schema": value}})


def tool(parameters):
    function = {"name": "f", "strict": True, "parameters": parameters}
    return chat(tools=[{"type": "function", "function": function}], tool_choice="required")


def nested_schema(levels):
    value = {"type": "string"}
    for _ in range(levels):
        value = {"not": value}
    return value


def fan(keyword, levels=9, width=10):
    """References that meet again and again: width ** levels paths."""
    definitions = {f"l{i}": {keyword: [{"$ref": f"#/$defs/l{i + 1}"}] * width} for i in range(levels)}
    return {"$defs": {**definitions, f"l{levels}": {"minLength": 1}}, "not": {"$ref": "#/$defs/l0"}}


ENDLESS = "(((){20000}){20000}){20000}"
STATES = "(a|b)*a(a|b){18}"

BOMBS = {
    "regex: nothing, many times": regex(ENDLESS),
    "regex: counts within counts": regex("((((x{0}){9999}){9999}){9999}){9999}"),
    "regex: letters, counts within counts": regex("((a{9999}){9999}){9999}"),
    "regex: exponential automaton": regex(STATES),
    "regex: many exponential automata": regex("(" + STATES.replace("18", "12") + "c){80}"),
    "regex: brackets": regex("(" * 1500 + "a" + ")" * 1500),
    "regex: quantifiers of quantifiers": regex("a" + "*" * 3500),
    "regex: a large count": regex("a{9999999}"),
    "gbnf: brackets": gbnf("root ::= " + "(" * 1500 + '"a"' + ")" * 1500),
    "gbnf: a large count": gbnf('root ::= "a"{99999999}'),
    "gbnf: optional parts without end": gbnf('root ::= (((("a"?){1000}){1000}){1000}){1000}'),
    "gbnf: rules around each other": gbnf("root ::= a\na ::= b\nb ::= a"),
    "schema: endless pattern": schema({"type": "string", "pattern": ENDLESS}),
    "schema: endless pattern of a name": schema({"type": "object", "patternProperties": {ENDLESS: {}}}),
    "schema: exponential pattern": schema({"type": "string", "pattern": f"^{STATES}$"}),
    "schema: fan of allOf": schema(fan("allOf")),
    "schema: nesting": schema(nested_schema(300)),
    "schema: a large count of items": schema({"type": "array", "items": {"type": "integer"}, "maxItems": 99999999,
                                              "minItems": 99999999}),
    "schema: a long string": schema({"type": "string", "minLength": 99999999, "maxLength": 99999999}),
    "tool: endless pattern": tool({"type": "object", "properties": {"a": {"type": "string", "pattern": ENDLESS}}}),
    "tool: fan of allOf": tool({"type": "object", "$defs": fan("allOf")["$defs"],
                                "properties": {"a": {"not": {"$ref": "#/$defs/l0"}}}, "required": ["a"]}),
    "lark: exponential automaton": lark(f"start: /{STATES}/"),
    "lark: counts within counts": lark("start: /((a{9999}){9999}){9999}/"),
    "lark: a large count": lark('start: "a"~9999999'),
    "lark: brackets": lark("start: " + "(" * 300 + '"a"' + ")" * 300),
}

assert all(len(json.dumps(body)) < 4096 for _, body in BOMBS.values())


def names_a_limit(message):
    """Whether the message of an error says which bound is exceeded, or what makes the grammar endless."""
    return re.search(r"more than \d|longer than \d|deeper than \d|nested too deeply|begins with itself|is too large", message)

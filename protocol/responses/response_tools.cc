#include "protocol/responses/response_tools.h"

#include <algorithm>

#include "protocol/api/api_error.h"

namespace reprise::protocol::responses {
namespace {

using grammar::TextRule;

constexpr std::size_t kTypeBytes = 64;
constexpr std::size_t kToolBytes = 256;

class ToolReader {
 public:
  ToolReader(const Fields& body, const BodyLimits& limits) : body_(body), limits_(limits) {}

  void read(const Json::Array& tools, const std::string& path, const std::string& name_space) {
    for (std::size_t i = 0; i < tools.size(); ++i) {
      const std::string item = item_of(path, i);
      if (!tools[i].is_object()) refuse_kind(item, "an object", tools[i]);
      if (++count_ > limits_.tools) {
        refuse_field("tools", "too_many", "more than " + std::to_string(limits_.tools) + " tools");
      }
      read_tool(tools[i], item, name_space);
    }
  }
  ResponseTools take() { return std::move(tools_); }

 private:
  void read_tool(const Json& given, const std::string& path, const std::string& name_space) {
    const std::string* type = Fields(given, path).string("type", kToolBytes);
    if (type == nullptr) refuse_field(path + ".type", "missing", "is required");
    const bool takes_text = *type == "custom";
    const bool has_tools = *type == "namespace" && name_space.empty();
    if (*type != "function" && !takes_text && !has_tools) {
      return body_.mark_unread(path + ": " + *type, given);  // a tool that its server would run
    }
    const Fields tool(given, path, body_);
    static_cast<void>(tool.find("type"));
    const std::string* name = tool.string("name", kToolBytes);
    if (name == nullptr || name->empty()) refuse_field(tool.path_of("name"), "missing", "is required");
    if (has_tools) {
      if (const Json::Array* inner = tool.array("tools")) read(*inner, tool.path_of("tools"), *name);
      return;
    }
    const std::string shown = shown_name(name_space, *name);
    Json function{{"name", shown}};
    if (const std::string* words = tool.string("description", limits_.prompt_bytes)) {
      function["description"] = *words;
    }
    if (takes_text) {
      const TextRule rule = read_format(tool);
      function["parameters"] = parameters_of(rule);
      tools_.texts.push_back({.name = shown, .input = rule});
    } else {
      if (const Json* parameters = tool.object("parameters")) function["parameters"] = *parameters;
      if (tool.boolean_or("strict", false)) function["strict"] = true;
    }
    tools_.functions.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
    tools_.all.push_back({.shown = shown, .name = *name, .name_space = name_space, .takes_text = takes_text});
  }

  TextRule read_format(const Fields& tool) const {
    const auto format = tool.within("format");
    if (!format) return {};
    const Fields& wish = *format;
    const std::string* type = wish.string("type", kTypeBytes);
    if (type != nullptr && *type == "text") return {};
    if (type == nullptr || *type != "grammar") {
      refuse_unsupported(wish.path_of("type"), "only 'text' and 'grammar' are supported");
    }
    const std::string* syntax = wish.string("syntax", kTypeBytes);
    const std::string* definition = wish.string("definition", limits_.prompt_bytes);
    if (definition == nullptr || definition->empty()) {
      refuse_field(wish.path_of("definition"), "missing", "is required");
    }
    if (syntax != nullptr && *syntax == "lark") return {.kind = TextRule::Kind::kLark, .text = *definition};
    if (syntax != nullptr && *syntax == "regex") return {.kind = TextRule::Kind::kRegex, .text = *definition};
    refuse_unsupported(wish.path_of("syntax"), "only 'lark' and 'regex' are supported");
  }

  static Json parameters_of(const TextRule& rule) {
    std::string words = "The whole input, as plain text";
    if (rule.kind == TextRule::Kind::kLark) words += " that fits this Lark grammar:\n" + rule.text;
    if (rule.kind == TextRule::Kind::kRegex) words += " that matches this regular expression: " + rule.text;
    Json input{{"type", "string"}, {"description", std::move(words)}};
    Json properties = Json::object();
    properties[grammar::kInputName] = std::move(input);
    Json required = Json::array();
    required.push_back(grammar::kInputName);
    return Json{{"type", "object"},
                {"properties", std::move(properties)},
                {"required", std::move(required)},
                {"additionalProperties", false}};
  }

  const Fields& body_;
  const BodyLimits& limits_;
  ResponseTools tools_;
  std::size_t count_ = 0;
};

}  // namespace

std::string shown_name(std::string_view name_space, std::string_view name) {
  std::string shown(name_space);
  if (!shown.empty() && !shown.ends_with("__")) shown += "__";
  return shown.append(name);
}

std::string arguments_of(const std::string& input) {
  Json arguments = Json::object();
  arguments[grammar::kInputName] = input;
  return arguments.dump();
}

ResponseTools read_tools(const Fields& fields, const BodyLimits& limits) {
  ToolReader reader(fields, limits);
  if (const Json::Array* tools = fields.array("tools")) reader.read(*tools, "tools", {});
  return reader.take();
}

ToolChoice read_tool_choice(const Fields& fields, const ResponseTools& tools) {
  const bool have_tools = !tools.all.empty();
  ToolChoice choice{.mode = have_tools ? ToolChoice::Mode::kAuto : ToolChoice::Mode::kNone};
  const Json* given = fields.find("tool_choice");
  if (given == nullptr) return choice;
  if (given->is_string()) {
    const std::string& word = given->as_string();
    if (word == "none") return {};
    if (word == "auto") return choice;
    if (word != "required") {
      refuse_field("tool_choice", "invalid_value", in_quotes(word) + " is not one of none, auto, required");
    }
    if (!have_tools) {
      refuse_field("tool_choice", "invalid_value", "'required' needs functions or custom tools");
    }
    return {.mode = ToolChoice::Mode::kRequired};
  }
  if (!given->is_object()) refuse_kind("tool_choice", "a string or an object", *given);
  const Fields wish(*given, "tool_choice", fields);
  const std::string* type = wish.string("type", kTypeBytes);
  if (type == nullptr || (*type != "function" && *type != "custom")) {
    refuse_unsupported("tool_choice.type", "only 'function' and 'custom' are supported");
  }
  const std::string* name = wish.string("name", kToolBytes);
  if (name == nullptr) refuse_field("tool_choice.name", "missing", "is required");
  const std::string* name_space = wish.string("namespace", kToolBytes);
  const std::string shown = shown_name(name_space == nullptr ? std::string() : *name_space, *name);
  const bool takes_text = *type == "custom";
  const bool known = std::any_of(tools.all.begin(), tools.all.end(), [&](const ResponseTool& tool) {
    return tool.shown == shown && tool.takes_text == takes_text;
  });
  if (known) return {.mode = ToolChoice::Mode::kNamed, .name = shown};
  refuse_field("tool_choice.name", "invalid_value",
               in_quotes(*name) + " is not among the " + (takes_text ? "custom tools" : "functions"));
}

}  // namespace reprise::protocol::responses

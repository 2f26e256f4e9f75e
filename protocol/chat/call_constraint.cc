#include "protocol/chat/call_constraint.h"

#include <algorithm>

namespace reprise::protocol {
namespace {

using grammar::CallsConstraint;
using Calls = ReplyFormat::Calls;
using Header = ReplyFormat::Header;

const Json& function_of(const Json& tool) {
  const Json* function = tool.find_object("function");
  return function == nullptr ? tool : *function;
}

bool is_strict(const Json& function) {
  const Json* strict = function.find("strict");
  return strict != nullptr && strict->is_bool() && strict->as_bool();
}

void add_text(std::vector<std::string>& pieces, std::string text) {
  if (!text.empty()) pieces.push_back(std::move(text));
}

// Appends the text from the format's mark to the tool's name.
void add_opening(const ReplyFormat& format, std::vector<std::string>& before) {
  switch (format.calls) {
    case Calls::kJson:
      return add_text(before, format.list ? "[{\"name\": \"" : "\n{\"name\": \"");
    case Calls::kXml:
      return add_text(before, "\n<function=");
    case Calls::kPython:
      return add_text(before, "[");
    case Calls::kNamed:
      add_text(before, format.item_open);
      if (format.header == Header::kTyped) {
        add_text(before, "function");
        add_text(before, format.name_separator);
      }
      if (format.header == Header::kKimi) add_text(before, "functions.");
      return;
    case Calls::kBareJson:
    case Calls::kNone:
      return;
  }
}

// Appends the name and the text between it and the arguments.
void add_name(const ReplyFormat& format, const std::string& name, std::vector<std::string>& before) {
  switch (format.calls) {
    case Calls::kJson:
    case Calls::kBareJson:
      return add_text(before, name + "\", \"" + format.arguments_key + "\":");
    case Calls::kXml:
      return add_text(before, name + ">\n");
    case Calls::kPython:
      return add_text(before, name + "(");
    case Calls::kNamed:
      if (format.header == Header::kTyped) return add_text(before, name + "\n```json\n");
      add_text(before, format.header == Header::kKimi ? name + ":0" : name);
      return add_text(before, format.name_separator);
    case Calls::kNone:
      return;
  }
}

std::vector<std::string> closing(const ReplyFormat& format) {
  std::vector<std::string> after;
  switch (format.calls) {
    case Calls::kJson:
      add_text(after, format.list ? "}]" : format.call_close.empty() ? "}" : "}\n");
      break;
    case Calls::kBareJson:
      add_text(after, "}");
      break;
    case Calls::kXml:
      add_text(after, "</function>\n");
      break;
    case Calls::kPython:
      add_text(after, ")]");
      break;
    case Calls::kNamed:
      if (format.header == Header::kTyped) add_text(after, "\n```");
      add_text(after, format.item_close);
      break;
    case Calls::kNone:
      break;
  }
  add_text(after, format.call_close);
  return after;
}

CallsConstraint::Arguments arguments_of(const ReplyFormat& format) {
  if (format.calls == Calls::kXml) return CallsConstraint::Arguments::kXml;
  if (format.calls == Calls::kPython) return CallsConstraint::Arguments::kPython;
  return CallsConstraint::Arguments::kJson;
}

template <class AddBefore>
CallsConstraint constraint_of(const ReplyFormat& format, const Json& tools, std::string_view only,
                              std::span<const TextTool> text_tools, const AddBefore& add_before) {
  CallsConstraint calls{.arguments = arguments_of(format)};
  for (const Json& item : tools.as_array()) {
    const Json& function = function_of(item);
    const std::string* name = function.find_string("name");
    if (name == nullptr || (!only.empty() && *name != only)) continue;
    CallsConstraint::Tool tool{.name = *name, .after = closing(format), .strict = is_strict(function)};
    if (const Json* parameters = function.find("parameters")) tool.parameters = *parameters;
    for (const TextTool& one : text_tools) {
      if (one.name == *name) tool.input = one.input;
    }
    add_before(*name, tool.before);
    calls.tools.push_back(std::move(tool));
  }
  return calls;
}

}  // namespace

std::optional<CallsConstraint> forced_call(const ReplyFormat& format, const Json& tools,
                                           std::string_view name, std::span<const TextTool> text_tools) {
  if (!format.has_calls() || !tools.is_array()) return std::nullopt;
  // With a name the opening includes it.
  return constraint_of(format, tools, name, text_tools,
                       [&](const std::string& tool, std::vector<std::string>& before) {
                         if (name.empty()) add_name(format, tool, before);
                       });
}

std::optional<CallsConstraint> free_calls(const ReplyFormat& format, const Json& tools,
                                          std::span<const TextTool> text_tools) {
  if (!format.has_calls() || !tools.is_array() || format.call_open.empty()) return std::nullopt;
  if (format.calls == Calls::kBareJson) return std::nullopt;  // a call may also begin without the mark
  CallsConstraint calls = constraint_of(format, tools, {}, text_tools,
                                        [&](const std::string& tool, std::vector<std::string>& before) {
                                          add_opening(format, before);
                                          add_name(format, tool, before);
                                        });
  calls.mark = format.call_open;
  return calls;
}

bool has_strict_tool(const Json& tools, std::span<const TextTool> text_tools) {
  if (std::any_of(text_tools.begin(), text_tools.end(),
                  [](const TextTool& tool) { return tool.input.kind != grammar::TextRule::Kind::kAny; })) {
    return true;
  }
  return tools.is_array() && std::any_of(tools.as_array().begin(), tools.as_array().end(),
                                         [](const Json& tool) { return is_strict(function_of(tool)); });
}

}  // namespace reprise::protocol

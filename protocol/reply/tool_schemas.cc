#include "protocol/reply/tool_schemas.h"

#include "protocol/reply/call_text.h"

namespace reprise::protocol {
namespace {

struct Types {
  bool text = false;
  bool null = false;
  bool other = false;

  void add(std::string_view type) {
    if (type == "string") {
      text = true;
    } else if (type == "null") {
      null = true;
    } else {
      other = true;
    }
  }
};

void collect(const Json& schema, Types& types, int depth) {
  if (const std::string* type = schema.find_string("type")) types.add(*type);
  if (const Json::Array* several = schema.find_array("type")) {
    for (const Json& type : *several) {
      if (type.is_string()) types.add(type.as_string());
    }
  }
  if (depth == 0) return;
  for (const char* choice : {"anyOf", "oneOf"}) {
    if (const Json::Array* several = schema.find_array(choice)) {
      for (const Json& one : *several) collect(one, types, depth - 1);
    }
  }
}

}  // namespace

const Json* ToolSchemas::find(std::string_view tool) const {
  if (!tools_.is_array()) return nullptr;
  for (const Json& item : tools_.as_array()) {
    const Json* function = item.find_object("function");
    if (function == nullptr) function = &item;
    const std::string* name = function->find_string("name");
    if (name != nullptr && *name == tool) return function;
  }
  return nullptr;
}

ToolSchemas::Kind ToolSchemas::kind_of(std::string_view tool, std::string_view parameter) const {
  const Json* found = find(tool);
  for (const char* step : {"parameters", "properties"}) {
    if (found != nullptr) found = found->find_object(step);
  }
  if (found != nullptr) found = found->find_object(parameter);
  if (found == nullptr) return Kind::kJson;
  Types types;
  collect(*found, types, 4);
  if (!types.text) return Kind::kJson;
  return types.null ? Kind::kMixed : Kind::kText;
}

std::string json_of_bare_value(std::string_view text, ToolSchemas::Kind kind) {
  const std::string_view bare = trimmed(text);
  if (kind != ToolSchemas::Kind::kText && (bare == "null" || bare == "None")) return "null";
  if (kind == ToolSchemas::Kind::kJson) {
    if (bare == "True") return "true";
    if (bare == "False") return "false";
    if (Json::parse(bare).ok()) return std::string(bare);
  }
  std::string quoted;
  append_json_string(quoted, text);
  return quoted;
}

}  // namespace reprise::protocol

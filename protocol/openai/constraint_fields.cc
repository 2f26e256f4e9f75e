#include "protocol/openai/constraint_fields.h"

#include "protocol/api/api_error.h"

namespace reprise::protocol::openai {
namespace {

using grammar::Constraint;
using Kind = Constraint::Kind;

constexpr std::size_t kMostGrammarBytes = 1u << 20;
constexpr std::size_t kMostChoices = 10'000;
constexpr std::size_t kMaxWhitespaceBytes = 1024;

Constraint of_schema(const Json& given, const std::string& path) {
  Json schema = given;
  if (given.is_string()) {  // as text
    auto parsed = Json::parse(given.as_string(), {.bytes = kMostGrammarBytes, .depth = 64});
    if (!parsed.ok()) refuse_field(path, "invalid_value", parsed.error().message);
    schema = std::move(*parsed);
  }
  if (!schema.is_object() && !schema.is_bool()) refuse_kind(path, "a JSON schema", given);
  return {.kind = Kind::kJsonSchema, .json = std::move(schema), .field = path};
}

Constraint of_text(Kind kind, const Json& given, const std::string& path) {
  if (!given.is_string()) refuse_kind(path, "a string", given);
  if (given.as_string().size() > kMostGrammarBytes) {
    refuse_field(path, "too_long", "has more than " + std::to_string(kMostGrammarBytes) + " bytes");
  }
  return {.kind = kind, .text = given.as_string(), .field = path};
}

/// GBNF, or Lark's where no rule is written as GBNF writes them.
Constraint of_grammar(const Json& given, const std::string& path) {
  Constraint constraint = of_text(Kind::kGbnf, given, path);
  if (constraint.text.find("::=") == std::string::npos) constraint.kind = Kind::kLark;
  return constraint;
}

Constraint of_choices(const Json& given, const std::string& path) {
  if (!given.is_array() || given.size() == 0) refuse_kind(path, "an array of strings", given);
  if (given.size() > kMostChoices)
    refuse_field(path, "too_many", "has more than " + std::to_string(kMostChoices));
  Constraint constraint{.kind = Kind::kChoice, .field = path};
  for (const Json& choice : given.as_array()) {
    if (!choice.is_string() || choice.as_string().empty())
      refuse_kind(path, "an array of strings with text", given);
    constraint.choices.push_back(choice.as_string());
  }
  return constraint;
}

Constraint of_response_format(const Fields& body, const Json& given) {
  const Fields format(given, "response_format", body);
  const Json* word = format.find("type");
  if (word == nullptr || !word->is_string())
    refuse_field("response_format", "invalid_type", "must be an object with a string 'type'");
  const std::string* type = &word->as_string();
  if (*type == "text") return {};
  if (*type == "json_object") {
    if (const Json* schema = format.find("schema")) return of_schema(*schema, "response_format.schema");
    return {.kind = Kind::kJsonObject, .field = "response_format"};
  }
  if (*type == "json_schema") {
    const auto named = format.within("json_schema");
    const Json* schema = named ? named->find("schema") : format.find("schema");
    if (schema == nullptr) refuse_field("response_format.json_schema.schema", "missing", "is required");
    return of_schema(*schema, "response_format.json_schema.schema");
  }
  refuse_unsupported("response_format",
                     "type " + in_quotes(*type) + " is not supported: text, json_object and json_schema are");
}

std::string whitespace_of(const Json& given, const std::string& path) {
  if (!given.is_string()) refuse_kind(path, "a string", given);
  if (given.as_string().size() > kMaxWhitespaceBytes) {
    refuse_field(path, "too_long", "has more than " + std::to_string(kMaxWhitespaceBytes) + " bytes");
  }
  return given.as_string();
}

Constraint of_structured_outputs(const Json& object) {
  Constraint found;
  for (const Json::Member& member : object.as_object()) {
    if (member.value.is_null()) continue;
    const std::string path = "structured_outputs." + member.key;
    Constraint one;
    if (member.key == "json") {
      one = of_schema(member.value, path);
    } else if (member.key == "regex") {
      one = of_text(Kind::kRegex, member.value, path);
    } else if (member.key == "choice") {
      one = of_choices(member.value, path);
    } else if (member.key == "grammar") {
      one = of_grammar(member.value, path);
    } else if (member.key == "json_object") {
      if (!member.value.is_bool()) refuse_kind(path, "true or false", member.value);
      if (member.value.as_bool()) one = {.kind = Kind::kJsonObject, .field = path};
    } else if (member.key == "structural_tag") {
      refuse_unsupported(path, "is not supported by this server");
    }
    if (found && one) refuse_field("structured_outputs", "invalid_value", "must have only one constraint");
    if (one) found = std::move(one);
  }
  return found;
}

/// For JSON, also in arguments of tools: these may be all that the reply is held to.
void read_whitespace(const Fields& fields, Constraint& constraint) {
  const Json* object = fields.object("structured_outputs");
  const Json* nested = object == nullptr ? nullptr : object->find("whitespace_pattern");
  const Json* plain = fields.find("guided_whitespace_pattern");
  if (nested != nullptr && nested->is_null()) nested = nullptr;
  if (nested != nullptr && plain != nullptr) {
    refuse_field("guided_whitespace_pattern", "invalid_value",
                 "does not go together with structured_outputs.whitespace_pattern");
  }
  if (nested == nullptr && plain == nullptr) return;
  const char* path =
      nested != nullptr ? "structured_outputs.whitespace_pattern" : "guided_whitespace_pattern";
  if (constraint && constraint.kind != Kind::kJsonObject && constraint.kind != Kind::kJsonSchema) {
    refuse_field(path, "invalid_value", "only goes with JSON, not with " + constraint.field);
  }
  constraint.whitespace = whitespace_of(nested != nullptr ? *nested : *plain, path);
}

}  // namespace

Constraint read_constraint(const Fields& fields) {
  Constraint found;
  const auto take = [&](Constraint one) {
    if (!one) return;
    if (found) refuse_field(one.field, "invalid_value", "does not go together with " + found.field);
    found = std::move(one);
  };
  if (const Json* format = fields.find("response_format")) take(of_response_format(fields, *format));
  if (const auto object = fields.within("structured_outputs")) {
    for (const char* name : {"json", "regex", "choice", "grammar", "json_object", "whitespace_pattern"}) {
      static_cast<void>(object->find(name));
    }
    take(of_structured_outputs(object->whole()));
  }
  for (const char* name : {"guided_json", "json_schema"}) {
    if (const Json* schema = fields.find(name)) take(of_schema(*schema, name));
  }
  for (const char* name : {"guided_regex", "regex"}) {
    if (const Json* text = fields.find(name)) take(of_text(Kind::kRegex, *text, name));
  }
  if (const Json* choices = fields.find("guided_choice")) take(of_choices(*choices, "guided_choice"));
  for (const char* name : {"guided_grammar", "grammar", "ebnf"}) {
    const Json* text = fields.find(name);
    if (text != nullptr && !(text->is_string() && text->as_string().empty())) take(of_grammar(*text, name));
  }
  read_whitespace(fields, found);
  return found;
}

}  // namespace reprise::protocol::openai

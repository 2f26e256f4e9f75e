#include "protocol/grammar/compile.h"

#include <algorithm>

#include "protocol/grammar/json_schema.h"
#include "protocol/grammar/regex.h"
#include "protocol/grammar/rules.h"

namespace reprise::protocol::grammar {
namespace {

using Arguments = CallsConstraint::Arguments;

constexpr const char* kValueEnd = "\n</parameter>\n";
constexpr const char* kValueMark = "</parameter>";  // parsers of replies end a value here

// Returns the tool's parameter schema as a schema for an object.
Json object_schema(const Json& parameters) {
  Json schema = parameters.is_object() ? parameters : Json::object();
  if (schema.find("type") == nullptr) schema["type"] = "object";
  return schema;
}

// Returns whether the reply parser takes a value with this schema as unquoted text: only for type string.
bool is_text(const Json& schema) {
  const std::string* type = schema.find_string("type");
  return type != nullptr && *type == "string";
}

class CallBuilder {
 public:
  CallBuilder(ProgramBuilder& builder, Arguments form) : builder_(builder), form_(form) {}

  NodeId arguments(const Json& parameters, NodeId next) {
    const Json schema = object_schema(parameters);
    if (form_ == Arguments::kJson) {
      const NodeId object = builder_.call(json_schema_value(builder_, schema, OtherKeys::kIfDeclared), next);
      return builder_.split({object, builder_.literal(" ", object)});
    }
    return listed(schema, next);
  }

  /// A single text argument: accepts the bytes that the reply parser decodes to a matching text.
  NodeId input(const TextRule& rule, NodeId next) {
    const std::string name = kInputName;
    if (form_ == Arguments::kXml) {
      const TextForm form{.kind = TextForm::Kind::kUntilMark, .mark = kValueMark};
      return builder_.literal("<parameter=" + name + ">\n",
                              fitting(rule, form, builder_.literal(kValueEnd, next)));
    }
    const TextForm form{.kind = TextForm::Kind::kJsonString};
    if (form_ == Arguments::kPython) {
      return builder_.literal(name + "=\"", fitting(rule, form, builder_.literal("\"", next)));
    }
    const NodeId string = builder_.literal("\"", fitting(rule, form, builder_.literal("\"", builder_.end())));
    CharProduct keys(builder_.budget());
    keys.add(names_part({name}, builder_.budget()));
    ObjectSpec spec{.properties = {{.value = string, .required = true}}};
    spec.keys = builder_.add_dfa(keys.build());
    const NodeId object = builder_.object(std::move(spec), next);
    return builder_.split({object, builder_.literal(" ", object)});
  }

 private:
  NodeId fitting(const TextRule& rule, const TextForm& form, NodeId next) {
    if (rule.kind == TextRule::Kind::kRegex) return pattern_text(builder_, rule.text, form, next);
    return builder_.call(lark_start(builder_, rule.text, form), next);
  }

  // Parameters in schema order: required ones must be present, others are optional.
  NodeId listed(const Json& schema, NodeId next) {
    for (const char* keyword :
         {"patternProperties", "minProperties", "maxProperties", "propertyNames", "anyOf", "oneOf", "allOf",
          "not", "if", "$ref", "dependencies", "dependentRequired", "dependentSchemas"}) {
      if (schema.find(keyword) != nullptr) {
        throw GrammarError(std::string(keyword) +
                           ": is not supported for the whole of the parameters in this model's "
                           "form of calls");
      }
    }
    const Json* properties = schema.find_object("properties");
    const Json::Array* required = schema.find_array("required");
    const auto is_required = [&](const std::string& name) {
      if (required != nullptr) builder_.budget().charge(2 * required->size());
      return required != nullptr &&
             std::find(required->begin(), required->end(), Json(name)) != required->end();
    };
    if (required != nullptr) {
      for (const Json& name : *required) {
        if (properties != nullptr) builder_.budget().charge(properties->size());
        if (!name.is_string() || properties == nullptr || properties->find(name.as_string()) == nullptr) {
          throw GrammarError("required: names a parameter that is not among the properties");
        }
      }
    }
    if (properties == nullptr) return next;
    const auto& list = properties->as_object();
    // Two paths through the rest, with and without a previous parameter, because Python syntax needs commas.
    NodeId after = next;
    NodeId first = next;
    for (std::size_t i = list.size(); i-- > 0;) {
      const bool must = is_required(list[i].key);
      const NodeId one = parameter(schema, list[i], after);
      const NodeId after_comma = form_ == Arguments::kPython ? builder_.literal(", ", one) : one;
      first = must ? one : builder_.split({one, first});
      after = must ? after_comma : builder_.split({after_comma, after});
    }
    return first;
  }

  NodeId parameter(const Json& schema, const Json::Member& property, NodeId next) {
    if (form_ == Arguments::kPython) {
      return builder_.literal(property.key + "=", builder_.call(value(schema, property.value), next));
    }
    const std::string open = "<parameter=" + property.key + ">\n";
    if (!is_text(property.value)) {
      return builder_.literal(
          open, builder_.call(value(schema, property.value), builder_.literal(kValueEnd, next)));
    }
    return builder_.literal(open, text(property.value, next));
  }

  // Compiles a property's schema, together with the definitions of the whole schema.
  NodeId value(const Json& whole, const Json& schema) {
    WorkBudget::Held held(builder_.budget());
    Json own = schema.is_object() ? schema : Json::object();
    for (const char* keyword : {"$defs", "definitions"}) {
      const Json* definitions = whole.find(keyword);
      if (definitions == nullptr || own.find(keyword) != nullptr) continue;
      held.add(bytes_of(*definitions, builder_.budget()));  // one copy per parameter
      own[keyword] = *definitions;
    }
    return json_schema_value(builder_, own, OtherKeys::kIfDeclared);
  }

  NodeId text(const Json& schema, NodeId next) {
    const NodeId end = builder_.literal(kValueEnd, next);
    const Json::Array* values = schema.find_array("enum");
    if (values != nullptr) {
      std::vector<NodeId> choices;
      for (const Json& one : *values) {
        if (one.is_string()) choices.push_back(builder_.literal(one.as_string(), end));
      }
      return builder_.split(std::move(choices));
    }
    for (const char* keyword :
         {"pattern", "format", "minLength", "maxLength", "const", "not", "anyOf", "oneOf", "allOf"}) {
      if (schema.find(keyword) != nullptr) {
        throw GrammarError(std::string(keyword) +
                           ": is not supported for texts in this model's form of calls");
      }
    }
    return builder_.text_until(kValueEnd, false, next);
  }

  ProgramBuilder& builder_;
  const Arguments form_;
};

// Compiles one call without its mark. Throws GrammarError for a strict or text tool that cannot be compiled.
NodeId one_call(ProgramBuilder& builder, const CallsConstraint& calls, NodeId next) {
  const auto pieces = [&](const std::vector<std::string>& texts, NodeId node) {
    for (std::size_t i = texts.size(); i-- > 0;) node = builder.mark(texts[i], node);
    return node;
  };
  std::vector<NodeId> choices;
  for (const CallsConstraint::Tool& tool : calls.tools) {
    CallBuilder call(builder, calls.arguments);
    const NodeId after = pieces(tool.after, next);
    NodeId arguments = 0;
    try {
      arguments = tool.input.kind != TextRule::Kind::kAny ? call.input(tool.input, after)
                                                          : call.arguments(tool.parameters, after);
    } catch (const GrammarError& error) {
      if (tool.input.kind != TextRule::Kind::kAny) {
        throw GrammarError("format of '" + tool.name + "': " + error.what());
      }
      if (tool.strict) throw GrammarError("parameters of '" + tool.name + "': " + error.what());
      arguments = call.arguments(Json::object(), after);
    }
    choices.push_back(pieces(tool.before, arguments));
  }
  return builder.split(std::move(choices));
}

NodeId calls_start(ProgramBuilder& builder, const CallsConstraint& calls) {
  if (calls.mark.empty()) return one_call(builder, calls, builder.end());
  // Text follows a call, so the text's node is created before the calls.
  const auto list = static_cast<std::uint32_t>(builder.program().lists.size());
  builder.program().lists.emplace_back();
  const NodeId text = builder.text_until(calls.mark, true, builder.add(Op::kSplit, 0, list));
  const NodeId call = one_call(builder, calls, text);
  builder.program().lists[list] = {call};
  return text;
}

NodeId value_of(ProgramBuilder& builder, const Constraint& constraint) {
  using Kind = Constraint::Kind;
  const NodeId end = builder.end();
  switch (constraint.kind) {
    case Kind::kNone:
      break;
    case Kind::kJsonObject:
      return any_json_object(builder);
    case Kind::kJsonSchema:
      return json_schema_value(builder, constraint.json);
    case Kind::kRegex:
      return builder.pattern(constraint.text, end);
    case Kind::kChoice: {
      std::vector<NodeId> choices;
      for (const std::string& choice : constraint.choices) choices.push_back(builder.literal(choice, end));
      return builder.split(std::move(choices));
    }
    case Kind::kGbnf:
      return gbnf_root(builder, constraint.text);
    case Kind::kLark:
      return lark_start(builder, constraint.text, {});
    case Kind::kCalls:
      return calls_start(builder, constraint.calls);
  }
  throw GrammarError("there is nothing to keep to");
}

NodeId value_or_call(ProgramBuilder& builder, const Constraint& constraint) {
  const NodeId value = value_of(builder, constraint);
  if (constraint.kind == Constraint::Kind::kCalls || constraint.calls.tools.empty()) return value;
  return builder.split(
      {value, builder.mark(constraint.calls.mark, one_call(builder, constraint.calls, builder.end()))});
}

constexpr const char* kJsonBlanks = " \t\n\r";
constexpr std::size_t kMaxSpaceStates = 4096;

// Replaces the default whitespace between JSON tokens by the pattern.
void set_whitespace(ProgramBuilder& builder, const std::string& pattern) {
  try {
    CharProduct product(builder.budget());
    const RegexOptions python{.dialect = RegexDialect::kPython};
    product.add(pattern_part(parse_regex(pattern, python, builder.budget()), builder.budget()));
    product.add(pattern_part(parse_regex("[ \\t\\n\\r]*", python, builder.budget()), builder.budget()));
    const CharDfa dfa = product.build();
    if (dfa.empty()) throw GrammarError("matches nothing that JSON has between its tokens");
    if (dfa.states.size() > kMaxSpaceStates) {
      throw GrammarError("needs more than " + std::to_string(kMaxSpaceStates) + " states");
    }
    JsonSpace space{.states = {}, .after_separator = 0, .around_brackets = 0};
    builder.budget().take(dfa.states.size() * sizeof(SpaceState));
    for (std::uint32_t i = 0; i < dfa.states.size(); ++i) {
      SpaceState& state = space.states.emplace_back();
      state.may_end = dfa.states[i].label != 0;
      for (std::size_t kind = 0; kind < state.next.size(); ++kind) {
        const std::uint32_t next = dfa.step(i, static_cast<std::uint8_t>(kJsonBlanks[kind]));
        state.next[kind] = next == CharDfa::kDead ? kNowhere : next;
      }
    }
    builder.program().space = std::move(space);
  } catch (const GrammarError& error) {
    throw GrammarError(std::string("whitespace pattern: ") + error.what());
  }
}

// Adds optional reasoning before the value, separated by up to two line breaks.
NodeId after_thinking(ProgramBuilder& builder, const Constraint& constraint, NodeId value) {
  if (constraint.think_close.empty()) return value;
  const NodeId lines = builder.pattern("\n{0,2}", value);
  const NodeId thinking = builder.text_until(constraint.think_close, false, lines);
  if (constraint.think_open.empty()) return thinking;
  return builder.split({value, builder.mark(constraint.think_open, thinking)});
}

}  // namespace

std::string Constraint::key() const {
  Json parts = Json::array();
  parts.push_back(static_cast<int>(kind));
  parts.push_back(json);
  parts.push_back(text);
  for (const std::string& choice : choices) parts.push_back(choice);
  parts.push_back(static_cast<int>(calls.arguments));
  for (const CallsConstraint::Tool& tool : calls.tools) {
    parts.push_back(tool.name);
    for (const std::string& text : tool.before) parts.push_back(text);
    parts.push_back(nullptr);
    for (const std::string& text : tool.after) parts.push_back(text);
    parts.push_back(tool.parameters);
    parts.push_back(tool.strict);
    parts.push_back(static_cast<int>(tool.input.kind));
    parts.push_back(tool.input.text);
  }
  parts.push_back(calls.mark);
  parts.push_back(whitespace ? Json(*whitespace) : Json());
  parts.push_back(think_open);
  parts.push_back(think_close);
  return parts.dump();
}

WorkBudget compile_budget(const Limits& limits) {
  return WorkBudget(
      "compiling it", limits,
      {.steps = limits.compile_steps, .bytes = limits.compile_bytes, .seconds = limits.compile_seconds});
}

Outcome<std::shared_ptr<const Program>, std::string> compile(const Constraint& constraint,
                                                             WorkBudget& budget) {
  try {
    ProgramBuilder builder(budget);
    if (constraint.whitespace) set_whitespace(builder, *constraint.whitespace);
    const NodeId value = value_or_call(builder, constraint);
    const NodeId start = after_thinking(builder, constraint, value);
    return std::shared_ptr<const Program>(std::make_shared<const Program>(builder.finish(start)));
  } catch (const GrammarError& error) {
    return std::string(error.what());
  }
}

Outcome<std::shared_ptr<const Program>, std::string> compile(const Constraint& constraint,
                                                             const Limits& limits, IsWanted wanted) {
  WorkBudget budget = compile_budget(limits);
  budget.begin(std::move(wanted));
  return compile(constraint, budget);
}

}  // namespace reprise::protocol::grammar

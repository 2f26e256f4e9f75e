#include "protocol/grammar/compile.h"

#include "protocol/grammar/call_grammar.h"
#include "protocol/grammar/gbnf.h"
#include "protocol/grammar/json_schema.h"
#include "protocol/grammar/lark.h"

namespace reprise::protocol::grammar {
namespace {

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

// The pattern takes the place of what may stand between tokens by default.
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

// Thinking first, where the reply may have any; the value behind it may begin on a line of its own.
NodeId behind_thinking(ProgramBuilder& builder, const Constraint& constraint, NodeId value) {
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
    for (const std::string& text : tool.behind) parts.push_back(text);
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
    const NodeId start = behind_thinking(builder, constraint, value);
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

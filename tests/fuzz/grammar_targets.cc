// Reply constraints: GBNF, Lark, regular expressions and JSON Schemas. Each is refused with a reason or
// compiled within its limits, and an accepted prefix never leads to a dead end.
#include <memory>
#include <random>
#include <string>

#include "base/check.h"
#include "protocol/grammar/compile.h"
#include "protocol/grammar/mask_maker.h"
#include "tests/fuzz/targets.h"
#include "tests/protocol/grammar/grammar_fixture.h"

namespace reprise::fuzz {
namespace {

using namespace protocol::grammar;
using Kind = Constraint::Kind;

Limits small_limits() {
  Limits limits;
  limits.nodes = 20'000;
  limits.schemas = 2'000;
  limits.char_states = 3'000;
  limits.all_char_states = 20'000;
  limits.configurations = 400;
  limits.matcher_bytes = 400'000;
  return limits;
}

/// Compiles the constraint and takes some steps. Returns false if it was refused.
bool keep(const Constraint& constraint) {
  const Limits limits = small_limits();
  const auto program = compile(constraint, limits);
  if (!program.ok()) {
    REPRISE_CHECK(!program.error().empty(), "a refusal without a reason");
    return false;
  }
  REPRISE_CHECK((*program)->nodes.size() <= limits.nodes, "more nodes than there may be");
  ReplyConstraint reply(std::make_shared<MaskMaker>(*program, small_vocabulary()));
  std::mt19937_64 random(1);
  try {
    for (int step = 0; step < 12; ++step) {
      const SharedMask mask = reply.mask();
      TokenList allowed;
      for (std::size_t id = 1; id < small_vocabulary()->token_count(); ++id) {
        if (mask->allows(static_cast<TokenId>(id))) allowed.push_back(static_cast<TokenId>(id));
      }
      REPRISE_CHECK(mask->count > 0 || mask->ends, "the grammar allows no token and does not end");
      if (allowed.empty()) break;
      REPRISE_CHECK(reply.accept(allowed[random() % allowed.size()]), "an allowed token is refused");
    }
  } catch (const GrammarError& error) {
    REPRISE_CHECK(std::string(error.what()).find("alternatives at once") != std::string::npos,
                  "the matcher failed with an unexpected error");
  }
  return true;
}

}  // namespace

bool fuzz_gbnf(std::string_view input) {
  return keep({.kind = Kind::kGbnf, .text = std::string(input)});
}

/// The first byte chooses whether the constraint is on the reply or on the input of a tool call in one of its
/// forms.
bool fuzz_lark(std::string_view input) {
  if (input.empty()) return false;
  const std::string text(input.substr(1));
  if (input[0] == 'p') return keep({.kind = Kind::kLark, .text = text});
  using Arguments = CallsConstraint::Arguments;
  const Arguments form = input[0] == 'x' ? Arguments::kXml : Arguments::kJson;
  CallsConstraint calls{.arguments = form,
                        .tools = {{.name = "t", .input = {.kind = TextRule::Kind::kLark, .text = text}}}};
  return keep({.kind = Kind::kCalls, .calls = std::move(calls)});
}

bool fuzz_reply_pattern(std::string_view input) {
  return keep({.kind = Kind::kRegex, .text = std::string(input)});
}

bool fuzz_schema(std::string_view input) {
  auto json = Json::parse(input);
  return json.ok() && keep({.kind = Kind::kJsonSchema, .json = std::move(*json)});
}

}  // namespace reprise::fuzz

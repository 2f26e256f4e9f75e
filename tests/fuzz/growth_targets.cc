// Runs the constraint compilers and the template interpreter on grown texts (grower.h). Each is refused with
// a reason or stays within its limits; the oracle (oracle.h) measures the cost.
//
// The limits are a fraction of a server's, without clocks, so that a run exceeds the oracle's bounds only if
// some work is not counted.
#include <memory>
#include <random>

#include "base/check.h"
#include "protocol/grammar/compile.h"
#include "protocol/grammar/mask_maker.h"
#include "protocol/jinja/template.h"
#include "tests/fuzz/grower.h"
#include "tests/fuzz/targets.h"
#include "tests/protocol/grammar/grammar_fixture.h"
#include "tests/protocol/jinja/samples.h"

namespace reprise::fuzz {
namespace {

using namespace protocol::grammar;
using Kind = Constraint::Kind;
using protocol::jinja::Template;

Limits grown_limits() {
  Limits limits;
  limits.compile_seconds = 0;
  limits.compile_steps = 10'000'000;
  limits.compile_bytes = std::size_t{96} << 20;
  limits.mask_steps = 2'000'000;
  return limits;
}

/// Compiles the constraint and accepts some tokens. Returns false if it was refused.
bool compile_and_go(const Constraint& constraint) {
  const auto program = compile(constraint, grown_limits());
  if (!program.ok()) {
    REPRISE_CHECK(!program.error().empty(), "a refusal without a reason");
    return false;
  }
  std::mt19937_64 random(1);
  try {
    ReplyConstraint reply(std::make_shared<MaskMaker>(*program, small_vocabulary()));
    for (int step = 0; step < 4; ++step) {
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
    REPRISE_CHECK(error.what()[0] != '\0', "a refusal without a reason");
  }
  return true;
}

template <class Make>
auto grown(std::string_view input, Make make) {
  Draws draws(input);
  const std::size_t bytes = grown_size(draws);
  return make(draws, bytes);
}

}  // namespace

std::string grown_regex(std::string_view input) {
  return grown(input, grow_regex);
}

std::string grown_gbnf(std::string_view input) {
  return grown(input, grow_gbnf);
}

std::string grown_schema(std::string_view input) {
  return grown(input, grow_schema).dump();
}

std::string grown_jinja(std::string_view input) {
  return grown(input, grow_jinja);
}

bool fuzz_grown_regex(std::string_view text) {
  return compile_and_go({.kind = Kind::kRegex, .text = std::string(text)});
}

bool fuzz_grown_gbnf(std::string_view text) {
  return compile_and_go({.kind = Kind::kGbnf, .text = std::string(text)});
}

bool fuzz_grown_schema(std::string_view text) {
  auto json = Json::parse(text);
  return json.ok() && compile_and_go({.kind = Kind::kJsonSchema, .json = std::move(*json)});
}

bool fuzz_grown_jinja(std::string_view text) {
  static const Json kContext = *Json::parse(protocol::jinja::test::kContext);
  const auto compiled = Template::compile(text);
  if (!compiled.ok()) {
    REPRISE_CHECK(!compiled.error().reason.empty(), "an error without a reason");
    return false;
  }
  protocol::jinja::RenderOptions options;
  options.now = std::chrono::system_clock::from_time_t(1'794'657'600);  // 2026-11-14 12:00:00
  options.limits.steps = 2'000'000;
  options.limits.memory_bytes = std::size_t{64} << 20;
  options.limits.text_bytes = std::size_t{16} << 20;
  options.limits.output_bytes = std::size_t{16} << 20;
  const auto rendered = compiled->render(kContext, options);
  if (rendered.ok()) {
    REPRISE_CHECK(rendered->size() <= options.limits.output_bytes, "a text over its limit");
  } else {
    REPRISE_CHECK(!rendered.error().reason.empty(), "an error without a reason");
  }
  return true;
}

}  // namespace reprise::fuzz

// Grammars that are made to grow: patterns, GBNF and schemas that repeat, nest, chain and fan out, from 100 bytes up to
// 1 MiB, from a fixed seed. Each must be compiled or refused on a small stack, within a stated number of steps, of
// allocations and of bytes; so must the masks of what was compiled. No clock decides: a loop that charges nothing is
// found by what it allocates, or by the time limit of the whole test.
//
// A sample runs always; under REPRISE_THOROUGH many more, with the limits that requests have.
//
// A program of its own: it counts what all of it allocates.

#include <gtest/gtest.h>

#include <cmath>

#include "base/utf8.h"
#include "tests/counted_memory.h"
#include "tests/protocol/grammar/grammar_fixture.h"
#include "tests/small_stack.h"
#include "tests/thorough.h"

namespace reprise::protocol::grammar {
namespace {

using Kind = Constraint::Kind;

class Grower {
 public:
  explicit Grower(std::uint64_t seed) : random_(seed) {}

  std::uint64_t roll(std::uint64_t sides) { return random_() % sides; }

  /// From 100 bytes to 1 MiB, small ones as often as large.
  std::size_t size() {
    const double share = static_cast<double>(roll(10'000)) / 10'000;
    return static_cast<std::size_t>(100 * std::pow(1e4, share));
  }

  std::string regex(std::size_t bytes, int depth = 0) {
    if (bytes < 8 || depth > 6) return pick({"a", "b?", "[a-f]", "\\d", ".", "(ab|c)", "x{2,3}", "\xC3\xA9"});
    const std::size_t some = 1 + roll(12);
    switch (roll(7)) {
      case 0:
        return repeated(regex(bytes / some / 2, depth + 1), bytes);
      case 1: {
        const std::size_t open = roll(2) == 0 ? roll(300) : bytes / 3;
        const std::string close = pick({")", ")*", "){2}", "|)", ")?"});
        return times("(", open) + regex(bytes / 8, depth + 1) + times(close, open);
      }
      case 2: {
        std::string chain = regex(bytes / some, depth + 1);
        while (chain.size() < bytes) {
          const std::string part = regex(bytes / some, depth + 1);
          chain += '|' + part;
        }
        return chain;
      }
      case 3:
        return regex(8, 9) +
               times(pick({"*", "+", "?", "{1}", "{0,2}", "{2}", "*?"}), roll(2) == 0 ? some : bytes);
      case 4: {
        std::string fan = regex(bytes / 2, depth + 1);
        const std::string count = pick({"{20000}", "{0,20000}", "{300}", "{2,9}", "{1000,}"});
        for (std::size_t i = 0; i < some; ++i) fan = "(" + fan + ")" + count;
        return fan;
      }
      case 5:
        return "[" + std::string(roll(3) == 0 ? "^" : "") + ranges(bytes) + "]" +
               pick({"", "*", "{20000}", "{30}"});
      default: {
        std::string both = regex(bytes / 2, depth + 1);
        const std::string other = regex(bytes / 2, depth + 1);
        return both + pick({".*", "(a|b)*a(a|b){12}", "^", "$", ""}) + other;
      }
    }
  }

  std::string gbnf(std::size_t bytes) {
    const std::size_t rules = 1 + roll(2) * roll(bytes / 12 + 1);
    std::string text = "root ::= r0\n";
    for (std::size_t i = 0; i < rules; ++i) {
      const std::string next = i + 1 < rules ? "r" + std::to_string(i + 1) : "\"z\"";
      text += "r" + std::to_string(i) + " ::= ";
      switch (rules > 50 ? roll(5) : roll(6)) {
        case 0:
          text += next;
          break;
        case 1:
          text += repeated(next + " ", 10 * next.size()) + "\"\"";
          break;
        case 2:
          text += "[a-z]" + pick({"*", "", "{0,1000000}", "{3}"}) + " (" + next + " | \"q\" " + next + ")" +
                  pick({"", "?", "*", "{2,5}", "{100000}"});
          break;
        case 3:
          text += "\"a\" " + next + " | \"b\" r" + std::to_string(roll(rules)) + " | \"c\"";
          break;
        case 4:
          text += "\"\"" + pick({"", "{1000000}", "*"}) + " " + next;
          break;
        default:
          text += gbnf_items(bytes);
      }
      text += '\n';
    }
    return text;
  }

  Json schema(std::size_t bytes) {
    Json whole = Json::object();
    Json::Object definitions;
    const std::size_t count = 1 + roll(2) * roll(bytes / 60 + 1);
    for (std::size_t i = 0; i < count; ++i)
      definitions.push_back({"d" + std::to_string(i), definition(i, count, bytes)});
    whole["$defs"] = Json(std::move(definitions));
    whole[pick({"$ref", "$ref", "x"})] = "#/$defs/d0";
    const std::string keyword = pick({"not", "items", "propertyNames", "additionalProperties", "if", "x"});
    whole[keyword] = reference(0);
    if (keyword == "if") whole["then"] = reference(roll(count));
    if (roll(3) == 0) whole["const"] = constant(bytes / 20);
    return whole;
  }

 private:
  std::string pick(std::initializer_list<const char*> some) { return *(some.begin() + roll(some.size())); }

  static std::string times(const std::string& piece, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += piece;
    return text;
  }
  static std::string repeated(const std::string& piece, std::size_t bytes) {
    return times(piece, bytes / std::max<std::size_t>(piece.size(), 1) + 1);
  }

  std::string ranges(std::size_t bytes) {
    std::string text;
    while (text.size() < bytes) {
      const auto low = static_cast<char32_t>(0x100 + roll(0xD000));
      append_utf8(text, low);
      if (roll(2) == 0) {
        text += '-';
        append_utf8(text, low + static_cast<char32_t>(roll(4)));
      }
    }
    return text;
  }

  std::string gbnf_items(std::size_t bytes) {
    const std::size_t depth = roll(400);
    switch (roll(4)) {
      case 0:
        return repeated(pick({"[a-z]* ", "\"ab\" ", "[^x]? ", ". ", "\"\" ", "(\"a\" | \"b\")* "}), bytes);
      case 1:
        return repeated(pick({"[a-y]* \"i\" | ", "\"a\" | ", "\"\" | ", "[a-c]{0,9} \"z\" | "}), bytes) +
               "\"e\"";
      case 2:
        return times("(", depth) + "\"x\"" + times(pick({")", ")*", ")?", "){0,9}", " | \"y\")"}), depth);
      default:
        return "[" + ranges(bytes) + "]{1000}";
    }
  }

  Json reference(std::size_t definition) { return Json{{"$ref", "#/$defs/d" + std::to_string(definition)}}; }

  Json constant(std::size_t bytes) {
    Json list = Json::array();
    for (std::size_t i = 0; i <= bytes / 6; ++i)
      list.push_back(roll(2) == 0 ? Json(i) : Json(std::to_string(i)));
    return list;
  }

  // The i-th of so many, which leads on to the next.
  Json definition(std::size_t i, std::size_t count, std::size_t bytes) {
    const std::size_t own = std::max<std::size_t>(bytes / count, 20);
    const std::size_t next = std::min(i + 1, count - 1);
    Json schema = Json::object();
    const auto several = [&](std::size_t most) {
      Json list = Json::array();
      const std::size_t many = 1 + roll(most);
      for (std::size_t k = 0; k < many; ++k)
        list.push_back(roll(8) == 0 ? reference(roll(count)) : k % 2 == 0 ? reference(next) : leaf(k));
      return list;
    };
    switch (roll(9)) {
      case 0:
        return reference(next);
      case 1:
        schema[pick({"allOf", "anyOf", "oneOf"})] =
            several(std::min<std::size_t>(own / 18 + 1, roll(2) == 0 ? 10 : 9999));
        return schema;
      case 2: {
        Json::Object properties;
        Json required = Json::array();
        for (std::size_t k = 0; k <= own / 24; ++k) {
          properties.push_back({"p" + std::to_string(k), roll(3) == 0 ? reference(next) : leaf(k)});
          if (roll(3) == 0) required.push_back("p" + std::to_string(k));
        }
        schema["properties"] = Json(std::move(properties));
        schema["required"] = std::move(required);
        if (roll(2) == 0) schema["additionalProperties"] = false;
        if (roll(3) == 0) schema["maxProperties"] = roll(own);
        return schema;
      }
      case 3:
        schema["enum"] = constant(own);
        return schema;
      case 4:
        schema["pattern"] = regex(std::min<std::size_t>(own, 4000));
        schema["maxLength"] = roll(5000);
        return schema;
      case 5:
        schema[pick({"not", "items", "propertyNames", "additionalProperties"})] = reference(next);
        return schema;
      case 6: {
        Json needs = Json::object();
        Json::Object chain;
        for (std::size_t k = 0; k <= own / 24; ++k) {
          Json list = Json::array();
          list.push_back("n" + std::to_string(k + 1));
          chain.push_back({"n" + std::to_string(k), std::move(list)});
        }
        schema["dependentRequired"] = Json(std::move(chain));
        return schema;
      }
      case 7: {
        Json::Object patterns;
        for (std::size_t k = 0; k <= own / 24; ++k)
          patterns.push_back({regex(12) + std::to_string(k), roll(2) == 0 ? reference(next) : leaf(k)});
        schema["patternProperties"] = Json(std::move(patterns));
        return schema;
      }
      default: {
        Json inner = reference(next);
        const std::size_t levels = roll(50);
        for (std::size_t k = 0; k < levels; ++k) {
          Json outer = Json::object();
          outer[pick({"items", "not", "additionalProperties", "if"})] = std::move(inner);
          inner = std::move(outer);
        }
        return inner;
      }
    }
  }

  Json leaf(std::size_t k) {
    Json schema = Json::object();
    switch (roll(5)) {
      case 0:
        schema["type"] = pick({"string", "integer", "number", "array", "object", "null"});
        break;
      case 1:
        schema["const"] = Json(k);
        break;
      case 2:
        schema["minimum"] = Json(k);
        break;
      case 3:
        schema["pattern"] = "^" + std::to_string(k) + regex(9, 5);
        break;
      default:
        schema["minLength"] = Json(k);
    }
    return schema;
  }

  std::mt19937_64 random_;
};

// What one compilation or mask may take besides what its limits say: a last charge may be large, and memory is
// counted about.
constexpr std::uint64_t kStepsBeyond = 8'000'000;
constexpr std::uint64_t kAllocationsPerStep = 2;
constexpr std::uint64_t kFreeAllocations = 4'000'000;
constexpr std::int64_t kMostBytes = 384 << 20;

Limits limits_of_test() {
  Limits limits;
  limits.compile_seconds = 0;
  if (!thorough()) {
    limits.compile_steps = 500'000;
    limits.mask_steps = 200'000;
  }
  return limits;
}

struct Tally {
  std::size_t kept = 0;
  std::size_t refused = 0;
  std::size_t masks = 0;
};

// Runs the work, and looks at what it allocated.
template <class Work>
void watched(const std::string& what, std::uint64_t steps, const Work& work) {
  const std::uint64_t allocations = counted_memory::allocations;
  const std::int64_t held = counted_memory::bytes;
  counted_memory::most_bytes = held;
  on_small_stack(work);
  EXPECT_LT(counted_memory::allocations - allocations, kFreeAllocations + kAllocationsPerStep * steps)
      << what;
  EXPECT_LT(counted_memory::most_bytes - held, kMostBytes) << what;
}

void try_out(const Constraint& constraint, const std::string& what, Grower& grower, Tally& tally) {
  const Limits limits = limits_of_test();
  std::shared_ptr<const Program> program;
  watched(what, limits.compile_steps, [&] {
    WorkBudget budget = compile_budget(limits);
    auto compiled = compile(constraint, budget);
    EXPECT_LT(budget.steps(), limits.compile_steps + kStepsBeyond) << what;
    ++(compiled.ok() ? tally.kept : tally.refused);
    if (compiled.ok()) program = std::move(*compiled);
  });
  if (program == nullptr) return;
  try {
    std::optional<ReplyConstraint> reply;
    watched(what, limits.mask_steps,
            [&] { reply.emplace(std::make_shared<MaskMaker>(program, small_vocabulary())); });
    for (int step = 0; step < 4; ++step) {
      SharedMask mask;
      watched(what, limits.mask_steps, [&] { mask = reply->mask(); });
      ++tally.masks;
      std::vector<TokenId> allowed;
      for (std::size_t id = 1; id < small_vocabulary()->token_count(); ++id) {
        if (mask->allows(static_cast<TokenId>(id))) allowed.push_back(static_cast<TokenId>(id));
      }
      EXPECT_TRUE(mask->count > 0 || mask->ends) << "a dead end: " << what;
      if (allowed.empty()) return;
      EXPECT_TRUE(reply->accept(allowed[grower.roll(allowed.size())])) << what;
    }
  } catch (const GrammarError&) {
  }
}

template <class Make>
void grow(std::uint64_t seed, int often, const Make& make) {
  Tally tally;
  const int all = thorough() ? often * 8 : rounds(often);
  for (int i = 0; i < all; ++i) {
    Grower grower(seed + static_cast<std::uint64_t>(i));
    const std::size_t size = grower.size();
    const Constraint constraint = make(grower, size);
    const std::string shown = constraint.json.is_null() ? constraint.text : constraint.json.dump();
    const std::string what =
        "seed " + std::to_string(seed + static_cast<std::uint64_t>(i)) + ": " + shown.substr(0, 300);
    try_out(constraint, what, grower, tally);
    if (testing::Test::HasFailure()) return;
  }
  if (!kSanitized) {
    EXPECT_GT(tally.kept, static_cast<std::size_t>(all / 20)) << "they are mostly nonsense";
    EXPECT_GT(tally.refused, static_cast<std::size_t>(all / 20)) << "they are harmless";
    EXPECT_GT(tally.masks, static_cast<std::size_t>(all / 20));
  }
}

TEST(GrammarGrowth, Regex) {
  grow(1'000'000, 60, [](Grower& grower, std::size_t size) {
    return Constraint{.kind = Kind::kRegex, .text = grower.regex(size)};
  });
}

TEST(GrammarGrowth, Gbnf) {
  grow(2'000'000, 60, [](Grower& grower, std::size_t size) {
    return Constraint{.kind = Kind::kGbnf, .text = grower.gbnf(size)};
  });
}

TEST(GrammarGrowth, Schema) {
  grow(3'000'000, 80, [](Grower& grower, std::size_t size) {
    return Constraint{.kind = Kind::kJsonSchema, .json = grower.schema(size)};
  });
}

}  // namespace
}  // namespace reprise::protocol::grammar

// Cost of the prefix cache: lookup, insert and evict with 10,000 entries over prompts of 100,000 tokens.
//
//   bench_prefix_cache [--entries N] [--tokens N] [--seconds S]
//
// 10,000 separate prompts of 100,000 tokens would take 4 GB. So there are ten entries for each of 1,000
// conversations, spaced over a prompt whose first 92,000 tokens are shared by groups of conversations (50
// groups), as a long document or an agent's instructions are, and whose last 8,000 are the conversation's
// own.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "actors/cache/prefix_cache.h"

namespace {

using namespace reprise::actors;
using reprise::TokenId;
using reprise::TokenList;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPerConversation = 10;
constexpr std::size_t kGroups = 50;

struct Shape {
  std::size_t entries = 10'000;
  std::size_t tokens = 100'000;

  std::size_t conversations() const { return entries / kPerConversation; }
  std::size_t shared() const { return tokens / 100 * 92; }
};

// Returns a token of text number `text`. Hashed, so that texts share nothing by chance.
TokenId token_of(std::uint64_t text, std::size_t place) {
  std::uint64_t x = text * 0x9E3779B97F4A7C15ull + place * 0xD1B54A32D192ED03ull;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9ull;
  return static_cast<TokenId>((x >> 32) % 150'000);
}

TokenList prompt_of(const Shape& shape, std::size_t conversation) {
  TokenList prompt(shape.tokens);
  const std::uint64_t group = conversation % kGroups;
  for (std::size_t i = 0; i < shape.tokens; ++i) {
    prompt[i] = token_of(i < shape.shared() ? group : 1000 + conversation, i);
  }
  return prompt;
}

struct Times {
  std::vector<double> microseconds;

  template <class Function>
  void measure(Function function) {
    const auto begin = Clock::now();
    function();
    microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  void print(const char* what, double target = 0) {
    std::sort(microseconds.begin(), microseconds.end());
    const auto at = [this](double share) {
      return microseconds[static_cast<std::size_t>(share * static_cast<double>(microseconds.size() - 1))];
    };
    std::printf("%-44s %9.2f %9.2f %9.2f", what, at(0.5), at(0.99), at(1));
    if (target > 0) std::printf("   target %.0f: %s", target, at(0.5) < target ? "met" : "MISSED");
    std::printf("\n");
  }
};

class Bench {
 public:
  explicit Bench(const Shape& shape) : shape_(shape), cache_(options()) {}

  void fill() {
    Times flight, insert;
    for (std::size_t conversation = 0; conversation < shape_.conversations(); ++conversation) {
      const TokenList prompt = prompt_of(shape_, conversation);
      FlightId id = 0;
      flight.measure([&] { id = cache_.begin_flight("", prompt, now()); });
      const std::size_t own = shape_.tokens - shape_.shared();
      for (std::size_t i = 1; i <= kPerConversation; ++i) {
        const auto length = static_cast<std::uint32_t>(shape_.shared() + own * i / kPerConversation - 1);
        insert.measure([&] { cache_.insert("", prompt, {.snapshot = i, .length = length}, now()); });
      }
      cache_.end_flight(id);
    }
    const PrefixCacheStats stats = cache_.stats();
    std::printf("%llu entries of %zu to %zu tokens, %zu conversations in %zu groups that share %zu tokens\n",
                static_cast<unsigned long long>(stats.entries), shape_.shared(), shape_.tokens,
                shape_.conversations(), kGroups, shape_.shared());
    std::printf("%.1f million tokens on paths, %.0f MB\n\n", static_cast<double>(stats.path_tokens) / 1e6,
                static_cast<double>(stats.path_tokens) * sizeof(TokenId) / 1e6);
    std::printf("%-44s %9s %9s %9s\n", "microseconds", "median", "99 %", "most");
    flight.print("a prompt becomes a flight and a path");
    insert.print("insert");
  }

  void lookups(double seconds) {
    look("lookup, all 100 % known", seconds, 200, [](TokenList&) {});
    look("lookup, 95 % known", seconds, 0, [](TokenList& p) { p[p.size() / 100 * 95] = -1; });
    look("lookup, leaves after 100 tokens", seconds, 10, [](TokenList& p) { p[100] = -1; });
    look("lookup, first token unknown", seconds, 10, [](TokenList& p) { p[0] = -1; });
    Times lead;
    const TokenList prompt = prompt_of(shape_, 7);
    for (int i = 0; i < 1000; ++i) lead.measure([&] { (void)cache_.lead("", prompt); });
    lead.print("lead, all known");
  }

  void evictions() {
    Times times;
    while (cache_.stats().entries > shape_.entries / 2) {
      times.measure([&] {
        const auto victim = cache_.least_valuable(now(), true);
        if (victim) cache_.remove(victim->id, MissReason::kEvicted);
      });
    }
    times.print("evict the least valuable");
  }

 private:
  static PrefixCacheOptions options() {
    PrefixCacheOptions options;
    options.max_path_tokens = 1'000'000'000;
    return options;
  }

  CacheTime now() { return CacheTime(++now_); }

  // Prompts are created before timing starts. Each is looked up once per round, so it is no more cached by
  // the CPU than a request's prompt would be.
  template <class Change>
  void look(const char* what, double seconds, double target, Change change) {
    constexpr std::size_t kPrompts = 64;
    std::vector<TokenList> prompts;
    for (std::size_t i = 0; i < kPrompts; ++i) {
      prompts.push_back(prompt_of(shape_, random_() % shape_.conversations()));
      change(prompts.back());
    }
    Times times;
    const auto start = Clock::now();
    for (std::size_t i = 0; std::chrono::duration<double>(Clock::now() - start).count() < seconds; ++i) {
      times.measure([&] {
        const Found found = cache_.lookup("", prompts[i % kPrompts], 0, now());
        if (found.restore) (void)cache_.release(found.restore->entry);
      });
    }
    times.print(what, target);
  }

  Shape shape_;
  PrefixCache cache_;
  std::int64_t now_ = 0;
  std::mt19937_64 random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Cost of the prefix cache"};
  Shape shape;
  double seconds = 1;
  app.add_option("--entries", shape.entries, "Entries in the cache")
      ->check(CLI::Range(1'000UL, 100'000UL))
      ->capture_default_str();
  app.add_option("--tokens", shape.tokens, "Tokens of a prompt")
      ->check(CLI::Range(1'000UL, 1'000'000UL))
      ->capture_default_str();
  app.add_option("--seconds", seconds, "Time for each kind of lookup")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  Bench bench(shape);
  bench.fill();
  bench.lookups(seconds);
  bench.evictions();
  return 0;
}

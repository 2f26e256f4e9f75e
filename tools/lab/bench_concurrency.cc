#include "tools/lab/lab.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>

#include "models/model.h"
#include "tools/lab/bench_cache_client.h"

namespace reprise::tools {
namespace {

constexpr std::uint32_t kOwnTokens = 64;    // per conversation, after the shared prefix
constexpr std::uint32_t kReplyTokens = 16;  // long enough that all are admitted before the first ends
constexpr std::uint32_t kApart = 10;        // conversations that the memory holds without sharing
constexpr double kAskedTimes = 5;           // times as many with it
constexpr std::uint32_t kWaitTimes =
    64;  // as large: snapshots go ahead of need only where little of it is needed
constexpr std::uint32_t kWaitRequests = kWaitTimes * kApart * 5 / 4;
constexpr std::uint32_t kWaitAtOnce = 3;

/// Memory of conversations with a common prefix, each followed by its own tokens.
struct Prices {
  gpu::StateSizes sizes;
  std::uint32_t shared = 0;

  std::uint32_t tokens() const { return shared + kOwnTokens + kReplyTokens; }
  std::uint64_t shared_pages() const { return shared / gpu::kPageTokens; }
  std::uint64_t pages() const { return (tokens() + gpu::kPageTokens - 1) / gpu::kPageTokens; }
  /// Bytes of one conversation by itself.
  std::uint64_t alone() const { return sizes.slot_bytes + pages() * sizes.page_bytes; }
  /// Bytes of a further conversation with the shared prefix; recurrent state is never shared.
  std::uint64_t one_more() const { return sizes.slot_bytes + (pages() - shared_pages()) * sizes.page_bytes; }
  std::uint64_t memory() const { return alone() * kApart; }
  /// Max conversations that fit if the prefix is stored once and nothing else is.
  std::uint64_t possible() const {
    return (memory() - shared_pages() * sizes.page_bytes) / std::max<std::uint64_t>(one_more(), 1);
  }
};

Prices prices_of(const EngineFlags& flags, std::uint32_t shared) {
  const std::unique_ptr<models::Device> device = open_device(flags);
  return {device->load(flags.model, compute_options(flags))->state().sizes(), shared};
}

/// Returns the shortest prefix with which the goal is possible; 0: none below 2^20 tokens.
std::uint32_t shortest_beginning(Prices prices) {
  constexpr std::uint32_t kMaxLength = 1U << 20;
  for (prices.shared = gpu::kPageTokens; prices.shared <= kMaxLength; prices.shared += gpu::kPageTokens) {
    if (static_cast<double>(prices.possible()) >= kAskedTimes * kApart) return prices.shared;
  }
  return 0;
}

TokenList some_tokens(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  TokenList tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(100 + random() % 1000);
  return tokens;
}

class Concurrency {
 public:
  explicit Concurrency(const ConcurrencyOptions& options)
      : options_(options),
        prices_(prices_of(options.engine, options.shared_tokens)),
        memory_(prices_.memory()) {}

  void run() {
    std::printf(
        "%.1f MiB for sequences and snapshots, which hold %u conversations of %u tokens by themselves.\n\n",
        static_cast<double>(memory_) / (1 << 20), kApart, prices_.tokens());
    show_prices();
    std::printf(
        "| conversations, %u tokens shared | at once without sharing | at once with it | fit by their bytes "
        "| "
        "times | asked | |\n",
        options_.shared_tokens);
    std::printf("|---|---|---|---|---|---|---|\n");
    for (const std::uint32_t conversations : options_.conversations) {
      const double apart = max_at_once(conversations, false);
      const double shared = max_at_once(conversations, true);
      const double asked = std::min<double>(kAskedTimes, conversations / apart);
      std::printf("| %u | %.0f | %.0f | %llu | %.1fx | %.1fx | %s |\n", conversations, apart, shared,
                  static_cast<unsigned long long>(prices_.possible()), shared / apart, asked,
                  shared / apart >= asked ? "PASS" : "SHORT");
      std::fflush(stdout);
    }
    std::printf(
        "\n| evicted | requests, %u at a time | admission waits | waited, ms | reclaims ahead | asked | "
        "|\n",
        kWaitAtOnce);
    std::printf("|---|---|---|---|---|---|---|\n");
    show_waits("when needed", false);
    show_waits("ahead of need", true);
  }

 private:
  void show_prices() const {
    const auto kib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / 1024; };
    std::printf(
        "| KiB: recurrent state | page of %zu tokens | a conversation by itself | one more behind %u tokens "
        "| "
        "most times as many | %.0f times from |\n|---|---|---|---|---|---|\n",
        static_cast<std::size_t>(gpu::kPageTokens), options_.shared_tokens, kAskedTimes);
    const std::uint32_t from = shortest_beginning(prices_);
    std::printf("| %.0f | %.0f | %.0f | %.0f | %.1fx | %s |\n\n", kib(prices_.sizes.slot_bytes),
                kib(prices_.sizes.page_bytes), kib(prices_.alone()), kib(prices_.one_more()),
                static_cast<double>(prices_.possible()) / kApart,
                from == 0 ? "never" : (std::to_string(from) + " shared tokens").c_str());
  }

  double max_at_once(std::uint32_t conversations, bool shares) const {
    BenchClient client(options_.engine, true, 0, memory_);
    const TokenList beginning = some_tokens(options_.shared_tokens, 1);
    std::vector<TokenList> prompts;
    for (std::uint32_t i = 0; i < conversations + 2; ++i) {
      prompts.push_back(beginning);
      const TokenList own = some_tokens(kOwnTokens, 100 + i);
      prompts.back().insert(prompts.back().end(), own.begin(), own.end());
    }
    // The third request finds the position where the first two diverge.
    for (int i = 0; i < 2 && shares; ++i, prompts.pop_back()) {
      client.ask(prompts.back(), kReplyTokens, "concurrency", true);
      client.rest();
    }
    prompts.resize(conversations);
    ask_all(client, prompts, kReplyTokens, conversations, "concurrency", shares);
    return client.figure("sequences_most");
  }

  void show_waits(const char* name, bool evicts_ahead) const {
    BenchClient client(options_.engine, true, 0, memory_ * kWaitTimes, evicts_ahead);
    std::vector<TokenList> prompts;
    for (std::uint32_t i = 0; i < kWaitRequests; ++i) {
      prompts.push_back(some_tokens(options_.shared_tokens + kOwnTokens, 1000 + i));
    }
    ask_all(client, prompts, kReplyTokens, kWaitAtOnce, "concurrency", true);
    const double waits = client.figure("admission_waits_total");
    std::printf("| %s | %u | %.0f | %.1f | %.0f | %s | %s |\n", name, kWaitRequests, waits,
                client.figure("admission_wait_seconds_total") * 1000, client.figure("reclaims_ahead_total"),
                evicts_ahead ? "0" : "",
                !evicts_ahead ? ""
                : waits == 0  ? "PASS"
                              : "SHORT");
    std::fflush(stdout);
  }

  const ConcurrencyOptions& options_;
  const Prices prices_;
  const std::uint64_t memory_;
};

}  // namespace

int bench_concurrency(const ConcurrencyOptions& asked) {
  ConcurrencyOptions options = asked;
  for (const std::uint32_t count : options.conversations) {
    if (count < 1 || count > 250) throw UsageError("--concurrency: takes 1 to 250 conversations");
  }
  if (options.engine.device == "auto") options.engine.device = open_device(options.engine)->name();
  Concurrency(options).run();
  return 0;
}

}  // namespace reprise::tools

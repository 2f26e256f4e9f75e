#pragma once
// An engine in this process, with a synchronous client.
//
// Threading: ask() from any thread, the rest from one.

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/engine.h"
#include "protocol/service.h"
#include "runtime/system.h"
#include "tools/reprise/engine_flags.h"

namespace reprise::tools {

/// Special seed: greedy sampling.
inline constexpr std::uint64_t kGreedy = 0;

struct BenchAnswer {
  TokenList tokens{};
  std::vector<double> logprobs{};  // of each token and the best alternative
  std::string text{};
  std::string prompt_tail{};
  protocol::CacheReport cache{};
  double first_token_seconds = 0;

  bool says_the_same(const BenchAnswer& other) const {
    return tokens == other.tokens && logprobs == other.logprobs && text == other.text;
  }
};

class BenchClient {
 public:
  /// Loads the model. `cache_bytes`: max size of snapshots, 0: all of the state memory; `state_bytes`: size
  /// of the state memory, 0: chosen for the machine. Throws std::runtime_error.
  BenchClient(const EngineFlags& flags, bool cache, std::uint64_t cache_bytes = 0,
              std::uint64_t state_bytes = 0, bool evicts_ahead = true);

  /// `cached` false: neither reads nor writes the cache. Throws std::runtime_error if the request fails.
  BenchAnswer ask(protocol::Prompt prompt, std::uint32_t reply_tokens, const std::string& name_space,
                  bool cached, std::uint64_t seed = kGreedy);
  /// Blocks until the engine is idle, including idle-time work. Throws std::runtime_error after ten minutes.
  void rest();

  const protocol::ModelCard& card() const { return card_; }
  std::vector<protocol::Figure> figures() const { return engine_->figures(); }
  double figure(const std::string& name) const;

 private:
  runtime::System system_;
  std::unique_ptr<actors::Engine> engine_;
  protocol::ModelCard card_;
};

/// Asks each prompt once, `at_once` at a time. Rethrows the first exception.
std::vector<BenchAnswer> ask_all(BenchClient& client, const std::vector<TokenList>& prompts,
                                 std::uint32_t reply, std::uint32_t at_once, const std::string& name_space,
                                 bool cached);

}  // namespace reprise::tools

#pragma once
// An engine with a small model, used from a plain thread.

#include <gtest/gtest.h>

#include <cctype>
#include <chrono>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "actors/engine.h"
#include "actors/model_supervisor.h"
#include "gpu/devices.h"
#include "runtime/system.h"
#include "tests/actors/token_lists.h"
#include "tests/idle.h"
#include "tests/models/family_table.h"
#include "tools/reliability/faults.h"

namespace reprise::actors {

using namespace std::chrono_literals;
using protocol::CacheReport;
using protocol::MissReason;
using protocol::Origin;

inline std::string model_path(const std::string& name) {
  return models::test::sample_checkpoint({.family = {}, .sample = name});
}

/// Returns the devices of this machine on which the engine can run.
inline std::vector<std::string> test_devices() {
  std::vector<std::string> devices = {"cpu", "cpu-grid"};
  if (!gpu::list_devices().empty()) devices.push_back("cuda:0");
  return devices;
}

/// Makes a test parameter valid as part of a test's name.
inline std::string test_name(std::string text) {
  for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return text;
}

/// A test parameter: a device and a model on it.
struct OnDevice {
  std::string device;
  std::string model;

  friend void PrintTo(const OnDevice& on, std::ostream* out) { *out << on.model << " on " << on.device; }
};
inline std::string name_of_pair(const testing::TestParamInfo<OnDevice>& info) {
  return test_name(info.param.device + "_" + info.param.model);
}
/// Returns those whose device this machine has.
inline std::vector<OnDevice> present(std::vector<OnDevice> all) {
  const bool has_gpu = !gpu::list_devices().empty();
  std::erase_if(all, [&](const OnDevice& one) { return one.device == "cuda:0" && !has_gpu; });
  return all;
}

struct Reply {
  struct Choice {
    TokenList tokens;
    std::string text;
    std::vector<double> logprobs;  // each token's and its best alternatives', concatenated
    std::optional<protocol::Finished> finished;

    bool operator==(const Choice& other) const {
      return tokens == other.tokens && text == other.text && logprobs == other.logprobs;
    }
  };
  std::vector<Choice> choices;
  CacheReport cache;
  protocol::Usage usage;
  std::optional<protocol::Error> error;
  bool done = false;

  const TokenList& tokens() const { return choices.at(0).tokens; }
};

inline Reply read_all(runtime::StreamReader<protocol::Event> events, std::chrono::seconds timeout = 120s) {
  Reply reply;
  const auto deadline = runtime::Clock::now() + timeout;
  for (;;) {
    runtime::Result<protocol::Event> next = events.next_blocking(deadline);
    if (!next.ok()) {
      if (next.error().code != runtime::ErrorCode::kEnded && !reply.error) {
        reply.error = protocol::Error{protocol::ErrorKind::kInternal, next.error().describe()};
      }
      return reply;
    }
    const auto choice = [&](std::uint32_t index) -> Reply::Choice& {
      if (reply.choices.size() <= index) reply.choices.resize(index + 1);
      return reply.choices[index];
    };
    if (auto* started = std::get_if<protocol::Started>(&*next)) {
      reply.cache = started->cache;
    } else if (auto* delta = std::get_if<protocol::Delta>(&*next)) {
      Reply::Choice& to = choice(delta->choice);
      to.text += delta->text;
      for (const protocol::ReplyToken& token : delta->tokens) {
        to.tokens.push_back(token.id);
        if (token.logprob) to.logprobs.push_back(*token.logprob);
        for (const auto& top : token.top) to.logprobs.push_back(top.logprob);
      }
    } else if (auto* finished = std::get_if<protocol::Finished>(&*next)) {
      choice(finished->choice).finished = *finished;
    } else if (auto* done = std::get_if<protocol::Done>(&*next)) {
      reply.usage = done->usage;
      reply.done = true;
    } else if (auto* failed = std::get_if<protocol::Failed>(&*next)) {
      reply.error = failed->error;
    }
  }
}

class EngineHarness {
 public:
  static EngineOptions defaults(const std::string& device, const std::string& model) {
    EngineOptions options;
    options.models = {{.name = "m", .path = model_path(model), .compute = "auto"}};
    options.worker.device = device;
    options.worker.device_options = {.threads = 1, .arena_bytes = 1ULL << 30};
    options.worker.state_bytes = 256ULL << 20;
    options.requests.prefill_history = false;
    return options;
  }

  explicit EngineHarness(EngineOptions options) {
    options.worker.faults = faults_;
    engine_ = std::make_unique<Engine>(system_, std::move(options));
    const auto error = engine_->wait_until_ready(60s);
    EXPECT_FALSE(error.has_value()) << (error ? error->message : "");
  }

  Engine& engine() { return *engine_; }
  Faults& faults() { return *faults_; }
  template <class A>
  void crash() {
    crash_all<A>(system_);
  }
  runtime::System& system() { return system_; }

  static protocol::GenerateRequest request(TokenList prompt, std::uint32_t max_tokens = 6) {
    protocol::GenerateRequest request{.prompt = std::move(prompt)};
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    request.sampling.logprobs = 20;
    request.rules.ignore_eos = true;
    return request;
  }

  Reply ask(protocol::GenerateRequest request) { return read_all(engine_->generate(std::move(request))); }
  Reply ask(TokenList prompt, std::uint32_t max_tokens = 6) {
    return ask(request(std::move(prompt), max_tokens));
  }
  /// Asks without reading or writing the cache.
  Reply cold(TokenList prompt, std::uint32_t max_tokens = 6) {
    protocol::GenerateRequest query = request(std::move(prompt), max_tokens);
    query.cache.enabled = false;
    return ask(std::move(query));
  }

  double figure(const std::string& name, const std::string& label = {}) const {
    double sum = 0;
    for (const protocol::Figure& figure : engine_->figures()) {
      if (figure.name != "reprise_" + name) continue;
      bool counts = label.empty();
      for (const auto& [key, value] : figure.labels) counts = counts || value == label;
      if (counts) sum += figure.value;
    }
    return sum;
  }

  /// Returns the turns of all actors of this name.
  std::uint64_t turns_of(const std::string& name) const {
    std::uint64_t turns = 0;
    for (const runtime::ActorInfo& actor : system_.actors()) turns += actor.name == name ? actor.turns : 0;
    return turns;
  }

  template <class Holds>
  bool eventually(const Holds& holds) const {
    return reprise::eventually(holds);
  }

  /// Waits until all requests are answered and all work they caused is done.
  void settle() {
    EXPECT_TRUE(eventually_idle(system_, [&] {
      return figure("requests_running") + figure("sequences") + figure("tier_waiting") == 0;
    }));
  }

 private:
  const std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  runtime::System system_{{.workers = 2}};
  std::unique_ptr<Engine> engine_;
};

/// Retries while the engine is unavailable, as clients do.
inline Reply ask_until_available(EngineHarness& harness, const TokenList& prompt, std::uint32_t max_tokens) {
  for (int tries = 0;; ++tries) {
    Reply reply = harness.ask(prompt, max_tokens);
    const bool later = reply.error && reply.error->kind == protocol::ErrorKind::kUnavailable;
    if (!later || tries == 1000) return reply;
    std::this_thread::sleep_for(5ms);
  }
}

inline void expect_nothing_held(EngineHarness& harness) {
  for (const char* held :
       {"sequences", "cache_leases", "cache_flights", "requests_running", "requests_waiting"}) {
    EXPECT_TRUE(harness.eventually([&] { return harness.figure(held) == 0; }))
        << held << ": " << harness.figure(held);
  }
}

}  // namespace reprise::actors

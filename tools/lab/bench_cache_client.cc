#include "tools/lab/bench_cache_client.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>

namespace reprise::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kLoadDeadline = 10min;
constexpr auto kAnswerDeadline = 30min;
constexpr auto kRestDeadline = 10min;
constexpr int kLogprobs = 5;

actors::EngineOptions engine_options(const EngineFlags& flags, bool cache, std::uint64_t cache_bytes,
                                     std::uint64_t state_bytes, bool evicts_ahead) {
  actors::EngineOptions options{};
  options.models.push_back({.name = "bench",
                            .path = flags.model,
                            .compute = flags.compute,
                            .kv_dtype = flags.kv_dtype,
                            .isa = flags.isa});
  options.worker.device = flags.device;
  options.worker.device_options = device_options(flags);
  options.worker.state_bytes = state_bytes;
  options.worker.evicts_ahead = evicts_ahead;
  options.cache = cache;
  options.registry.budget_bytes = cache_bytes;
  options.requests.max_wait = kAnswerDeadline;
  options.log = [](const std::string& line) { std::fprintf(stderr, "reprise: %s\n", line.c_str()); };
  return options;
}

}  // namespace

BenchClient::BenchClient(const EngineFlags& flags, bool cache, std::uint64_t cache_bytes,
                         std::uint64_t state_bytes, bool evicts_ahead)
    : system_({.workers = 2}),
      engine_(std::make_unique<actors::Engine>(
          system_, engine_options(flags, cache, cache_bytes, state_bytes, evicts_ahead))) {
  if (const auto error = engine_->wait_until_ready(kLoadDeadline)) throw std::runtime_error(error->message);
  card_ = engine_->models().front();
}

BenchAnswer BenchClient::ask(protocol::Prompt prompt, std::uint32_t reply_tokens,
                             const std::string& name_space, bool cached, std::uint64_t seed) {
  protocol::GenerateRequest request{.prompt = std::move(prompt)};
  request.max_tokens = reply_tokens;
  request.sampling.temperature = seed == kGreedy ? 0 : 1;
  request.sampling.seed = seed;
  request.sampling.logprobs = kLogprobs;
  request.rules.ignore_eos = true;
  request.cache.name_space = name_space;
  request.cache.enabled = cached;
  BenchAnswer answer;
  const auto begin = runtime::Clock::now();
  runtime::StreamReader<protocol::Event> events = engine_->generate(std::move(request));
  bool done = false;
  for (;;) {
    runtime::Result<protocol::Event> event = events.next_blocking(begin + kAnswerDeadline);
    if (!event.ok()) {
      if (done && event.error().code == runtime::ErrorCode::kEnded) return answer;
      throw std::runtime_error("a request has failed: " + event.error().describe());
    }
    if (const auto* started = std::get_if<protocol::Started>(&*event)) {
      answer.cache = started->cache;
      answer.prompt_tail = started->prompt_tail;
    } else if (const auto* delta = std::get_if<protocol::Delta>(&*event)) {
      if (answer.tokens.empty() && !delta->tokens.empty()) {
        answer.first_token_seconds = std::chrono::duration<double>(runtime::Clock::now() - begin).count();
      }
      answer.text += delta->text;
      for (const protocol::ReplyToken& token : delta->tokens) {
        answer.tokens.push_back(token.id);
        if (token.logprob) answer.logprobs.push_back(*token.logprob);
        for (const auto& other : token.top) answer.logprobs.push_back(other.logprob);
      }
    } else if (std::holds_alternative<protocol::Done>(*event)) {
      done = true;
    } else if (const auto* failed = std::get_if<protocol::Failed>(&*event)) {
      throw std::runtime_error("a request has failed: " + failed->error.message);
    }
  }
}

void BenchClient::rest() {
  const auto deadline = runtime::Clock::now() + kRestDeadline;
  while (engine_->running_requests() > 0) {
    if (runtime::Clock::now() > deadline) throw std::runtime_error("the engine does not come to rest");
    std::this_thread::sleep_for(1ms);
  }
}

double BenchClient::figure(const std::string& name) const {
  double sum = 0;
  for (const protocol::Figure& figure : figures()) {
    if (figure.name == "reprise_" + name) sum += figure.value;
  }
  return sum;
}

std::vector<BenchAnswer> ask_all(BenchClient& client, const std::vector<TokenList>& prompts,
                                 std::uint32_t reply, std::uint32_t at_once, const std::string& name_space,
                                 bool cached) {
  std::vector<BenchAnswer> answers(prompts.size());
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < prompts.size(); i = next++) {
        answers[i] = client.ask(prompts[i], reply, name_space, cached);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      next = prompts.size();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 0; i < at_once; ++i) threads.emplace_back(work);
  }
  if (failure) std::rethrow_exception(failure);
  return answers;
}

}  // namespace reprise::tools

// A host with its own Asio loop embeds the engine: an actor on that loop loads a model, holds a conversation
// of two turns, repeats the second without the cache, and compares.
//
// Usage: engine_host MODEL_FOLDER

#include <actors/engine.h>
#include <runtime/actor.h>
#include <runtime/interop/asio_executor.h>
#include <runtime/system.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

using namespace reprise;
using namespace std::chrono_literals;

namespace {

struct Reply {
  TokenList tokens;
  protocol::CacheReport cache;
  bool complete = false;
};

struct Talk {
  std::string model;
  std::function<void(bool)> at_end;  // called on the host's loop; true: success
};

class Guest : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<Talk>;

  explicit Guest(actors::Engine& engine) : engine_(engine) {}

  runtime::Task<void> on(Talk talk) {
    runtime::Task<bool> talking = converse(talk.model);
    const bool well = co_await talking;
    talk.at_end(well);
  }

 private:
  runtime::Task<bool> converse(std::string path) {
    auto loading = engine_.ask_load({.name = "tiny", .path = path}, 1min);
    const runtime::Result<actors::Engine::Loaded> loaded = co_await loading;
    if (!loaded || !loaded->ok()) {
      std::printf("not loaded: %s\n",
                  loaded ? loaded->error().message.c_str() : loaded.error().describe().c_str());
      co_return false;
    }
    std::printf("the model is loaded\n");

    TokenList conversation;
    for (int i = 0; i < 100; ++i) conversation.push_back(3 + i * 7 % 400);
    runtime::Task<Reply> first_turn = answer(conversation, /*cached=*/true);
    const Reply first = co_await first_turn;
    if (!first.complete) co_return false;
    std::printf("first turn: %u tokens restored, %s\n", first.cache.restored_tokens,
                std::string(name_of(first.cache.reason)).c_str());

    conversation.insert(conversation.end(), first.tokens.begin(), first.tokens.end());
    for (int i = 0; i < 20; ++i) conversation.push_back(5 + i * 11 % 400);
    runtime::Task<Reply> second_turn = answer(conversation, /*cached=*/true);
    const Reply second = co_await second_turn;
    runtime::Task<Reply> cold_turn = answer(conversation, /*cached=*/false);
    const Reply cold = co_await cold_turn;
    if (!second.complete || !cold.complete) co_return false;
    const bool restored = second.cache.restored_tokens >= 99 && cold.cache.restored_tokens == 0;
    const bool equal = second.tokens == cold.tokens && second.tokens.size() == kReplyTokens;
    std::printf("second turn: %s, %s\n", restored ? "tokens restored" : "not restored",
                equal ? "the answer is the cold one" : "the answers differ");
    const bool well = restored && equal;
    co_return well;
  }

  runtime::Task<Reply> answer(TokenList prompt, bool cached) {
    protocol::GenerateRequest request{.prompt = std::move(prompt)};
    request.max_tokens = kReplyTokens;
    request.rules.ignore_eos = true;
    request.sampling.temperature = 0;
    request.cache.enabled = cached;
    Reply reply;
    runtime::StreamReader<protocol::Event> events = engine_.generate(std::move(request));
    for (;;) {
      auto next = events.next();
      const runtime::Result<protocol::Event> event = co_await next;
      if (!event) co_return reply;
      if (const auto* delta = std::get_if<protocol::Delta>(&*event)) {
        for (const protocol::ReplyToken& token : delta->tokens) reply.tokens.push_back(token.id);
      } else if (const auto* done = std::get_if<protocol::Done>(&*event)) {
        reply.cache = done->usage.cache;
        reply.complete = true;
      } else if (const auto* failed = std::get_if<protocol::Failed>(&*event)) {
        std::printf("failed: %s\n", failed->error.message.c_str());
      }
    }
  }

  static constexpr std::uint32_t kReplyTokens = 8;

  actors::Engine& engine_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  boost::asio::io_context loop(1);
  auto work = boost::asio::make_work_guard(loop);  // waiting actors do not keep run() from returning
  const std::thread::id loop_thread = std::this_thread::get_id();
  bool well = false;

  runtime::System system({.workers = 2});
  actors::EngineOptions options;
  options.worker.device_options.threads = 1;
  options.worker.state_bytes = 64ULL << 20;
  auto engine = std::make_unique<actors::Engine>(system, options);
  const runtime::ExecutorPtr executor = runtime::adopt_io_context(system, loop);
  const auto guest = system.spawn<Guest>({.placement = runtime::Placement::on(executor)}, *engine);
  guest.tell(Talk{argv[1], [&](bool went_well) {
                    well = went_well && std::this_thread::get_id() == loop_thread;
                    work.reset();
                  }});
  loop.run();

  engine.reset();
  const runtime::StopReport report = system.stop();
  std::printf("stopped %s\n", report.complete ? "cleanly" : "late");
  return well && report.complete ? 0 : 1;
}

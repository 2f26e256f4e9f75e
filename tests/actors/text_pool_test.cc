// Texts and templates that throw, hang or crowd affect only their own job.

#include "actors/request/text_pool.h"

#include <gtest/gtest.h>

#include <future>
#include <latch>

#include "models/text/regex.h"
#include "tests/eventually.h"
#include "tools/reliability/faults.h"

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;
using protocol::Error;
using protocol::ErrorKind;
using TextReply = HistoryJob::Reply;

/// Asks the pool within an actor's turn, as asks require.
class PoolClient : public runtime::Actor {
 public:
  struct Tell {
    using Reply = HistoryJob::Reply;
    TextOfRequest text;
  };
  using Accepts = runtime::Messages<Tell>;
  static constexpr std::uint32_t kConcurrentHandlers = 1024;

  explicit PoolClient(const TextPool* pool) : pool_(pool) {}

  runtime::Task<TextReply> on(Tell tell) {
    auto asked = pool_->ask(HistoryJob{std::move(tell.text)});
    runtime::Result<TextReply> answer = co_await asked;
    if (answer.ok()) co_return std::move(*answer);
    co_return TextReply(Error{ErrorKind::kInternal, answer.error().describe()});
  }

 private:
  const TextPool* pool_;
};

class TextPoolTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kActors = 2;

  TextPoolTest() {
    auto made =
        protocol::ChatFormat::make("{% for m in messages %}{{ m.content }}|{% endfor %}",
                                   {.encode = [this](const std::string& text) { return encode(text); },
                                    .is_special = [](TokenId id) { return id == '|'; }});
    EXPECT_TRUE(made.ok());
    model_->card.id = "m";
    model_->card.chat = *made;
    directory_->set({model_->card, model_, "", {}});
  }
  ~TextPoolTest() override {
    if (!gate_.try_wait()) gate_.count_down();
  }

  /// A tokenizer controlled by the text; one token per byte.
  TokenList encode(const std::string& text) {
    const auto says = [&](const char* what) { return text.find(what) != std::string::npos; };
    if (says("throw")) throw std::runtime_error("out of cheese");
    if (says("backtrack")) throw models::RegexError("match limit exceeded");
    if (says("no memory")) throw std::bad_alloc();
    if (says("wait") && !gate_.try_wait()) {
      ++waiting_;
      gate_.wait();
    }
    return TokenList(text.begin(), text.end());
  }

  /// The history job after a reply with that text.
  TextReply history(const std::string& what, const std::string& tenant = "", protocol::TextTime time = {}) {
    auto request = std::make_shared<protocol::GenerateRequest>();
    request->origin.tenant = tenant;
    request->origin.text_time = std::move(time);
    protocol::ChatPrompt chat{.messages = Json::array()};
    chat.messages.push_back(Json{{"role", "user"}, {"content", "hi"}});
    request->prompt = std::move(chat);
    runtime::Result<TextReply> answer =
        client_.ask_blocking(PoolClient::Tell{{.request = std::move(request),
                                               .model = model_,
                                               .reply = Json{{"role", "assistant"}, {"content", what}}}},
                             60s);
    if (answer.ok()) return std::move(*answer);
    return Error{ErrorKind::kInternal, answer.error().describe()};
  }
  std::future<TextReply> history_later(const std::string& what, const std::string& tenant = "") {
    return std::async(std::launch::async, [this, what, tenant] { return history(what, tenant); });
  }
  static std::optional<ErrorKind> code(const TextReply& reply) {
    const auto* error = std::get_if<Error>(&reply);
    return error == nullptr ? std::nullopt : std::optional(error->kind);
  }

  std::latch gate_{1};
  std::atomic<std::uint32_t> waiting_{0};
  const std::shared_ptr<ServedModel> model_ = std::make_shared<ServedModel>();
  const std::shared_ptr<ModelDirectory> directory_ = std::make_shared<ModelDirectory>();
  const std::shared_ptr<Restarts> restarts_ = std::make_shared<Restarts>(kActors);
  runtime::System system_{
      {.workers = 1, .hooks = {.on_failure = [](auto...) {}, .on_escalation = [](auto...) {}}}};
  TextPool pool_{system_, kActors, TextPool::limits_for(kActors), directory_, restarts_};
  runtime::RefOf<PoolClient> client_ = system_.spawn<PoolClient>({}, &pool_);
};

TEST_F(TextPoolTest, WhatThrowsIsAnsweredByKind) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(code(history("throw")), ErrorKind::kInternal);
    EXPECT_EQ(code(history("backtrack")), ErrorKind::kInvalid);
    EXPECT_EQ(code(history("no memory")), ErrorKind::kOverloaded);
    const TextReply good = history("well");
    ASSERT_TRUE(std::holds_alternative<TokenList>(good)) << std::get<Error>(good).message;
    const std::string_view wanted = "hi|well|";
    EXPECT_EQ(std::get<TokenList>(good), TokenList(wanted.begin(), wanted.end()));
  }
  EXPECT_EQ(restarts_->texts.total(), 0U);
}

TEST_F(TextPoolTest, AnActorThatFailsBeginsAnew) {
  crash_all<TextActor>(system_);
  for (std::uint32_t i = 0; i < 2 * kActors; ++i) EXPECT_FALSE(code(history("well")).has_value());
  EXPECT_TRUE(eventually([&] { return restarts_->texts.total() == kActors; }));
  EXPECT_FALSE(restarts_->texts.too_often());
  EXPECT_FALSE(pool_.failed());
  for (int i = 0; i < 5; ++i) crash_all<TextActor>(system_);
  EXPECT_TRUE(eventually([&] { return restarts_->texts.too_often(); }));
  EXPECT_FALSE(code(history("well")).has_value());
}

TEST_F(TextPoolTest, ALongTextHoldsUpNobodyElse) {
  auto slow = history_later("wait");
  ASSERT_TRUE(eventually([&] { return waiting_ == 1; }));
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(code(history("well")).has_value());
  gate_.count_down();
  EXPECT_FALSE(code(slow.get()).has_value());
}

TEST_F(TextPoolTest, WhenAllAreFullItIsOverloaded) {
  std::vector<std::future<TextReply>> jobs;
  constexpr std::uint32_t kAll = kActors * TextActor::kMaxJobs;
  for (std::uint32_t i = 0; i < kAll + 8; ++i) jobs.push_back(history_later("wait"));
  std::uint32_t refused = 0;
  ASSERT_TRUE(eventually([&] {
    refused = 0;
    for (auto& job : jobs) refused += job.wait_for(0s) == std::future_status::ready ? 1 : 0;
    return refused == 8;
  })) << refused;
  gate_.count_down();
  std::uint32_t overloaded = 0;
  for (auto& job : jobs) {
    const TextReply reply = job.get();
    if (code(reply) == ErrorKind::kOverloaded) {
      ++overloaded;
    } else {
      EXPECT_FALSE(code(reply).has_value()) << std::get<Error>(reply).message;
    }
  }
  EXPECT_EQ(overloaded, 8U);
  EXPECT_FALSE(code(history("well")).has_value());
}

TEST_F(TextPoolTest, OneTenantHasNeitherAllActorsNorAllPlaces) {
  std::vector<std::future<TextReply>> jobs;
  const std::size_t share = TextPool::limits_for(kActors).of_one;
  for (std::size_t i = 0; i < share + 5; ++i) jobs.push_back(history_later("wait", "greedy"));
  std::size_t refused = 0;
  ASSERT_TRUE(eventually([&] {
    refused = 0;
    for (auto& job : jobs) refused += job.wait_for(0s) == std::future_status::ready ? 1 : 0;
    return refused == 5;
  })) << refused;
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(code(history("well", "modest")).has_value());
  ASSERT_TRUE(eventually([&] { return waiting_ > 0; }));
  EXPECT_EQ(waiting_, 1U) << "one actor is for others";
  gate_.count_down();
  std::size_t overloaded = 0;
  for (auto& job : jobs) overloaded += code(job.get()) == ErrorKind::kOverloaded ? 1 : 0;
  EXPECT_EQ(overloaded, 5U);
}

TEST_F(TextPoolTest, TheTimeOfAJobIsTold) {
  const auto time = std::make_shared<std::atomic<std::uint64_t>>(0);
  EXPECT_FALSE(code(history(std::string(1U << 20, 'x'), "a", time)).has_value());
  EXPECT_GT(time->load(), 0U);
}

TEST(TextProgress, JobsThatWaitWithoutAnEndAreAProblem) {
  TextProgress progress;
  const runtime::TimePoint begin = runtime::Clock::now();
  EXPECT_FALSE(progress.problem(begin + 1h)) << "nothing waits";
  progress.note(1, false, begin);
  EXPECT_FALSE(progress.problem(begin + 9s));
  progress.note(3, false, begin + 9s);
  EXPECT_EQ(progress.problem(begin + 11s), "tokenizing stuck: 3 jobs wait and none has ended for 11 s");
  progress.note(2, true, begin + 12s);
  EXPECT_FALSE(progress.problem(begin + 21s));
  EXPECT_TRUE(progress.problem(begin + 22s));
  progress.note(0, false, begin + 23s);
  EXPECT_FALSE(progress.problem(begin + 1h));
  progress.note(1, false, begin + 1h);
  EXPECT_FALSE(progress.problem(begin + 1h)) << "it has only begun to wait";
}

TEST(RestartLog, TellsFailuresFromBirths) {
  RestartLog log(2);
  const runtime::TimePoint begin = runtime::Clock::now();
  for (int i = 0; i < 6; ++i) log.note_start(begin + i * 1s);
  EXPECT_EQ(log.total(), 4U);
  EXPECT_FALSE(log.too_often(begin + 6s));
  log.note_restart(begin + 6s);
  EXPECT_TRUE(log.too_often(begin + 6s));
  EXPECT_FALSE(log.too_often(begin + 70s)) << "that was long ago";
}

}  // namespace
}  // namespace reprise::actors

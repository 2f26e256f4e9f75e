// Makes every actor of the engine fail. Running requests continue or get an error, answers do not change,
// nothing leaks, and health() reports what stays broken.

#include <future>

#include "tests/actors/chat_model.h"
#include "tests/actors/engine_harness.h"

namespace reprise::actors {
namespace {

using protocol::Error;
using protocol::ErrorKind;

EngineOptions options_on(const std::string& device) {
  EngineOptions options = EngineHarness::defaults(device, "qwen3_5_text");
  options.max_reloads = 100;
  return options;
}

class FailureTest : public testing::TestWithParam<std::string> {
 protected:
  EngineHarness harness_{options_on(GetParam())};

  bool ready() { return harness_.engine().health().ready; }
  double restarts(const std::string& actor) { return harness_.figure("actor_restarts_total", actor); }
  void expect_empty_after_unload() {
    expect_nothing_held(harness_);
    ASSERT_TRUE(harness_.engine().unload("m", 60s));
    EXPECT_EQ(harness_.figure("state_used_bytes"), 0);
    EXPECT_EQ(harness_.figure("snapshots"), 0);
  }
};

TEST_P(FailureTest, FailedRegistryRestartsEmpty) {
  const TokenList prompt = random_tokens(400, 1);
  const Reply good = harness_.cold(prompt);
  harness_.ask(prompt);
  ASSERT_GT(harness_.figure("snapshots"), 0);
  harness_.crash<PrefixRegistry>();
  EXPECT_TRUE(harness_.eventually([&] { return restarts("registry") == 1; }));
  EXPECT_TRUE(harness_.eventually([&] { return harness_.figure("snapshots") == 0; }))
      << harness_.figure("snapshots") << " snapshots that nobody knows";
  const Reply after = harness_.ask(prompt);
  ASSERT_FALSE(after.error.has_value()) << after.error->message;
  EXPECT_TRUE(after.choices == good.choices);
  EXPECT_EQ(after.cache.restored_tokens, 0U);
  const Reply again = harness_.ask(prompt);
  EXPECT_TRUE(again.choices == good.choices);
  EXPECT_GT(again.cache.restored_tokens, 300U) << "it caches as before";
  EXPECT_TRUE(ready()) << harness_.engine().health().detail;
  expect_empty_after_unload();
}

TEST_P(FailureTest, RequestsOutliveTheirRegistry) {
  const TokenList prompt = random_tokens(300, 2);
  const Reply good = harness_.cold(prompt, 400);
  auto running = harness_.engine().generate(EngineHarness::request(prompt, 400));
  ASSERT_TRUE(harness_.eventually([&] { return harness_.figure("decode_tokens_total") > 410; }));
  harness_.crash<PrefixRegistry>();
  const Reply reply = read_all(std::move(running));
  ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
  EXPECT_TRUE(reply.choices == good.choices);
  expect_empty_after_unload();
}

TEST_P(FailureTest, ARegistryThatFailsTooOftenFailsItsModel) {
  const TokenList prompt = random_tokens(100, 3);
  const Reply good = harness_.ask(prompt);
  for (std::uint32_t i = 0; i <= PrefixRegistry::kMaxRestarts; ++i) harness_.crash<PrefixRegistry>();
  ASSERT_TRUE(harness_.eventually([&] { return !ready(); }));
  EXPECT_NE(harness_.engine().health().detail.find("cache failed too often"), std::string::npos)
      << harness_.engine().health().detail;
  EXPECT_EQ(harness_.ask(prompt).error->kind, ErrorKind::kUnavailable);
  EXPECT_TRUE(harness_.eventually([&] { return harness_.figure("state_used_bytes") == 0; }));
  const auto loaded = harness_.engine().load({.name = "m", .path = model_path("qwen3_5_text")}, 60s);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_TRUE(ready());
  EXPECT_TRUE(harness_.ask(prompt).choices == good.choices) << "and can be loaded anew";
  expect_empty_after_unload();
}

TEST_P(FailureTest, AWorkerThatEndsIsReplaced) {
  const TokenList prompt = random_tokens(200, 4);
  const Reply good = harness_.ask(prompt);
  auto running = harness_.engine().generate(EngineHarness::request(random_tokens(50, 5), 3000));
  ASSERT_TRUE(harness_.eventually([&] { return harness_.figure("sequences") > 0; }));
  harness_.crash<DeviceWorker>();
  const Reply broken = read_all(std::move(running));
  ASSERT_TRUE(broken.error.has_value());
  EXPECT_EQ(broken.error->kind, ErrorKind::kUnavailable) << broken.error->message;
  const Reply after = ask_until_available(harness_, prompt, 6);
  ASSERT_FALSE(after.error.has_value()) << after.error->message;
  EXPECT_TRUE(after.choices == good.choices);
  EXPECT_EQ(restarts("device"), 1);
  EXPECT_TRUE(ready()) << harness_.engine().health().detail;
  expect_empty_after_unload();
}

TEST_P(FailureTest, FailedSupervisorReloadsItsModels) {
  const TokenList prompt = random_tokens(200, 6);
  ASSERT_TRUE(harness_.engine().load({.name = "late", .path = model_path("qwen3")}, 60s).ok());
  const Reply good = harness_.ask(prompt);
  auto running = harness_.engine().generate(EngineHarness::request(random_tokens(50, 7), 3000));
  ASSERT_TRUE(harness_.eventually([&] { return harness_.figure("sequences") > 0; }));
  harness_.crash<ModelSupervisor>();
  EXPECT_TRUE(read_all(std::move(running)).error.has_value());
  const Reply after = ask_until_available(harness_, prompt, 6);
  ASSERT_FALSE(after.error.has_value()) << after.error->message;
  EXPECT_TRUE(after.choices == good.choices);
  EXPECT_TRUE(harness_.eventually([&] { return ready(); })) << harness_.engine().health().detail;
  EXPECT_EQ(harness_.engine().models().size(), 2U) << "also what was loaded later";
  EXPECT_EQ(restarts("supervisor"), 1);
  for (std::uint32_t i = 0; i < ModelSupervisor::kMaxRestarts; ++i) harness_.crash<ModelSupervisor>();
  EXPECT_TRUE(harness_.eventually([&] {
    return harness_.engine().health().detail.find("was stopped") != std::string::npos;
  })) << harness_.engine().health().detail;
  EXPECT_TRUE(harness_.ask(prompt).error.has_value());
}

INSTANTIATE_TEST_SUITE_P(Devices, FailureTest, testing::Values("cpu", "cpu-grid"),
                         [](const auto& info) { return test_name(info.param); });

// -- texts

class TextClient : public runtime::Actor {
 public:
  struct Tokenize {
    using Reply = protocol::Answer<protocol::Tokenized>;
    std::string text;
  };
  using Accepts = runtime::Messages<Tokenize>;

  explicit TextClient(Engine* engine) : engine_(engine) {}

  runtime::Task<Tokenize::Reply> on(Tokenize job) {
    auto asked = engine_->tokenize({.text = job.text});
    runtime::Result<Tokenize::Reply> answer = co_await asked;
    if (answer.ok()) co_return std::move(*answer);
    co_return Tokenize::Reply(Error{ErrorKind::kInternal, answer.error().describe()});
  }

 private:
  Engine* engine_;
};

/// A model whose pre-tokenizer backtracks exponentially on a sequence of a's.
class BacktrackingModel : public ChatModelFolder {
 public:
  BacktrackingModel() {
    const std::filesystem::path file = std::filesystem::path(path()) / "tokenizer.json";
    std::ifstream in(file);
    std::string json((std::istreambuf_iterator<char>(in)), {});
    const std::string before = "\"Regex\":";
    const std::size_t begin = json.find('"', json.find(before) + before.size()) + 1;
    const std::size_t end = json.find('"', begin);
    json.replace(begin, end - begin, "(?:a|a)*[bc]|[^a]+|a");
    std::ofstream(file) << json;
  }
};

TEST(TextFailure, ATextThatBacktracksFailsAloneAndByName) {
  const BacktrackingModel folder;
  EngineOptions options = EngineHarness::defaults("cpu", "");
  options.models = {{.name = "m", .path = folder.path()}};
  EngineHarness harness(options);
  const auto client = harness.system().spawn<TextClient>({}, &harness.engine());
  const auto tokenize = [&](const std::string& text) {
    return *client.ask_blocking(TextClient::Tokenize{text}, 60s);
  };
  const std::string bad(5000, 'a');
  const auto good = tokenize("xyz");
  ASSERT_TRUE(std::holds_alternative<protocol::Tokenized>(good)) << std::get<Error>(good).message;
  for (int i = 0; i < 5; ++i) {
    const auto failed = tokenize(bad);
    ASSERT_TRUE(std::holds_alternative<Error>(failed));
    EXPECT_EQ(std::get<Error>(failed).kind, ErrorKind::kInvalid) << std::get<Error>(failed).message;
    EXPECT_TRUE(std::holds_alternative<protocol::Tokenized>(tokenize("xyz")));
  }
  protocol::GenerateRequest request{.prompt = bad};
  request.max_tokens = 2;
  const Reply reply = harness.ask(std::move(request));
  ASSERT_TRUE(reply.error.has_value());
  EXPECT_EQ(reply.error->kind, ErrorKind::kInvalid) << reply.error->message;
  EXPECT_TRUE(harness.engine().health().ready) << harness.engine().health().detail;
  EXPECT_EQ(harness.figure("actor_restarts_total"), 0);

  crash_texts(harness.system());
  EXPECT_TRUE(std::holds_alternative<protocol::Tokenized>(tokenize("xyz"))) << "also after a crash";
  for (int i = 0; i < 5; ++i) crash_texts(harness.system());
  EXPECT_TRUE(harness.eventually([&] { return !harness.engine().health().ready; }));
  EXPECT_NE(harness.engine().health().detail.find("tokenizer and template"), std::string::npos);
}

}  // namespace
}  // namespace reprise::actors

// Adapters in an engine: chosen by requests, several at once, separate in the cache, loaded and unloaded
// while others run.

#include <thread>

#include "tests/actors/engine_harness.h"
#include "tests/models/adapters/random_adapter.h"

namespace reprise::actors {
namespace {

using protocol::ErrorKind;

/// Two adapters for the test model.
class AdapterEngine : public testing::TestWithParam<std::string> {
 protected:
  AdapterEngine() {
    const models::ModelFiles model = models::ModelFiles::open(model_path("qwen3_5_text"));
    models::test::write_random_adapter(folder("one"), model, {"attn", "mlp"}, 4, 1);
    models::test::write_random_adapter(folder("two"), model, {"q_proj", "down_proj"}, 2, 2);
  }

  std::string folder(const std::string& name) const { return (dir_.path() / name).string(); }
  EngineOptions options() const {
    EngineOptions options = EngineHarness::defaults(GetParam(), "qwen3_5_text");
    options.models.front().adapters = {{"one", folder("one")}, {"two", folder("two")}};
    options.max_reloads = 100;
    return options;
  }
  static protocol::GenerateRequest request(const TokenList& prompt, const std::string& model,
                                           const std::string& adapter = "", std::uint32_t max_tokens = 6) {
    protocol::GenerateRequest query = EngineHarness::request(prompt, max_tokens);
    query.model = model;
    query.adapter = adapter;
    return query;
  }
  static protocol::GenerateRequest cold(const TokenList& prompt, const std::string& model) {
    protocol::GenerateRequest query = request(prompt, model);
    query.cache.enabled = false;
    return query;
  }

  const models::test::TempDir dir_;
};

TEST_P(AdapterEngine, AreChosenByNameOrFieldAndListed) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(80, 1);
  const Reply plain = harness.ask(cold(prompt, "m"));
  const Reply named = harness.ask(cold(prompt, "m:one"));
  ASSERT_FALSE(named.error.has_value()) << named.error->message;
  protocol::GenerateRequest by_field = cold(prompt, "m");
  by_field.adapter = "one";
  EXPECT_TRUE(harness.ask(by_field).choices == named.choices);
  by_field.model = "";
  EXPECT_TRUE(harness.ask(by_field).choices == named.choices);
  EXPECT_FALSE(named.choices == plain.choices);
  EXPECT_FALSE(harness.ask(cold(prompt, "m:two")).choices == named.choices);

  std::vector<std::string> ids;
  for (const protocol::ModelCard& card : harness.engine().models()) ids.push_back(card.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"m", "m:one", "m:two"}));
  EXPECT_EQ(harness.engine().models()[1].parent, "m");

  const Reply unknown = harness.ask(request(prompt, "m", "three"));
  ASSERT_TRUE(unknown.error.has_value());
  EXPECT_EQ(unknown.error->kind, ErrorKind::kUnknownModel);
  EXPECT_EQ(unknown.error->message, "model 'm' has no adapter 'three'; its adapters are one, two");
  EXPECT_EQ(unknown.error->param, "adapter");
  EXPECT_EQ(harness.ask(request(prompt, "m:three")).error->kind, ErrorKind::kUnknownModel);
  EXPECT_EQ(harness.ask(request(prompt, "n:one")).error->message, "there is no model 'n:one'; served: m");
  EXPECT_EQ(harness.ask(request(prompt, "m:one", "two")).error->kind, ErrorKind::kInvalid);
}

TEST_P(AdapterEngine, StatesOfDifferentAdaptersNeverMeet) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(300, 2);
  for (const std::string model : {"m", "m:one", "m:two"}) {
    const Reply alone = harness.ask(cold(prompt, model));
    const Reply first = harness.ask(request(prompt, model));
    EXPECT_EQ(first.cache.restored_tokens, 0U) << model << " found another's state";
    EXPECT_EQ(first.cache.reason, MissReason::kNeverSeen) << model;
    const Reply again = harness.ask(request(prompt, model));
    EXPECT_GT(again.cache.restored_tokens, 200U) << model;
    EXPECT_TRUE(again.choices == alone.choices) << model;
    EXPECT_TRUE(first.choices == alone.choices) << model;
  }
}

TEST_P(AdapterEngine, SeveralInOneBatchAnswerAsAlone) {
  EngineHarness harness(options());
  std::vector<std::pair<protocol::GenerateRequest, Reply>> cases;
  for (std::uint32_t i = 0; i < 9; ++i) {
    const std::string model = i % 3 == 0 ? "m" : i % 3 == 1 ? "m:one" : "m:two";
    protocol::GenerateRequest query = cold(random_tokens(20 + 30 * i, 10 + i), model);
    query.max_tokens = 12;
    query.n = i % 4 == 1 ? 2 : 1;
    const Reply alone = harness.ask(query);
    ASSERT_FALSE(alone.error.has_value()) << alone.error->message;
    cases.emplace_back(query, alone);
  }
  std::vector<runtime::StreamReader<protocol::Event>> running;
  for (const auto& [query, alone] : cases) running.push_back(harness.engine().generate(query));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_TRUE(read_all(std::move(running[i])).choices == cases[i].second.choices) << i;
  }
}

TEST_P(AdapterEngine, UnloadingFreesItsMemoryAndItsSnapshots) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(200, 3);
  const Reply plain = harness.ask(request(prompt, "m"));
  const Reply before = harness.ask(request(prompt, "m:one"));
  expect_nothing_held(harness);
  const double used = harness.figure("device_state_used_bytes");

  const Engine::AdapterAnswer gone = harness.engine().unload_adapter("m", "one", 60s);
  ASSERT_TRUE(std::holds_alternative<protocol::AdapterCard>(gone));
  const auto bytes = static_cast<double>(std::get<protocol::AdapterCard>(gone).bytes);
  EXPECT_GT(bytes, 0);
  EXPECT_LT(harness.figure("device_state_used_bytes"), used - bytes) << "its snapshots went, too";
  EXPECT_EQ(harness.ask(request(prompt, "m:one")).error->message,
            "model 'm' has no adapter 'one'; its adapters are two");
  EXPECT_TRUE(std::holds_alternative<protocol::Error>(harness.engine().unload_adapter("m", "one", 60s)));
  const Reply base = harness.ask(request(prompt, "m"));
  EXPECT_GT(base.cache.restored_tokens, 100U) << "the model's own snapshots stay";
  EXPECT_TRUE(base.choices == plain.choices);

  const Engine::AdapterAnswer back = harness.engine().load_adapter("", {.name = "one", .path = ""}, 60s);
  ASSERT_TRUE(std::holds_alternative<protocol::AdapterCard>(back)) << std::get<protocol::Error>(back).message;
  const Reply after = harness.ask(request(prompt, "m:one"));
  EXPECT_EQ(after.cache.restored_tokens, 0U);
  EXPECT_TRUE(after.choices == before.choices);
}

TEST_P(AdapterEngine, UnloadingFailsTheRequestsThatUseItAndNoOthers) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(60, 4);
  // Not read yet: both pause for lack of credit.
  auto with = harness.engine().generate(request(prompt, "m:one", "", 4000));
  auto without = harness.engine().generate(request(prompt, "m:two", "", 400));
  ASSERT_TRUE(harness.eventually([&] { return harness.figure("sequences") == 2; }));
  ASSERT_TRUE(
      std::holds_alternative<protocol::AdapterCard>(harness.engine().unload_adapter("m", "one", 60s)));
  const Reply failed = read_all(std::move(with));
  ASSERT_TRUE(failed.error.has_value());
  EXPECT_EQ(failed.error->kind, ErrorKind::kUnavailable);
  EXPECT_EQ(failed.error->message, "adapter 'one' of model 'm' was unloaded");
  const Reply whole = read_all(std::move(without));
  EXPECT_FALSE(whole.error.has_value()) << whole.error->message;
  EXPECT_EQ(whole.tokens().size(), 400U);
  expect_nothing_held(harness);
}

TEST_P(AdapterEngine, ComeAndGoWhileOthersRun) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(150, 5);
  const Reply plain = harness.ask(cold(prompt, "m"));
  const Reply two = harness.ask(cold(prompt, "m:two"));
  const Reply one = harness.ask(cold(prompt, "m:one"));
  std::atomic<bool> done{false};
  std::thread changes([&] {
    for (int i = 0; i < 6; ++i) {
      EXPECT_TRUE(
          std::holds_alternative<protocol::AdapterCard>(harness.engine().unload_adapter("m", "one", 60s)));
      EXPECT_TRUE(std::holds_alternative<protocol::AdapterCard>(
          harness.engine().load_adapter("m", {.name = "one", .path = folder("one")}, 60s)));
    }
    done = true;
  });
  for (int i = 0; !done || i < 3; ++i) {
    EXPECT_TRUE(harness.ask(request(prompt, "m")).choices == plain.choices);
    EXPECT_TRUE(harness.ask(request(prompt, "m:two")).choices == two.choices);
    const Reply maybe = harness.ask(request(prompt, "m:one"));
    if (!maybe.error) {
      EXPECT_TRUE(maybe.choices == one.choices);
    } else {
      EXPECT_TRUE(maybe.error->kind == ErrorKind::kUnknownModel ||
                  maybe.error->kind == ErrorKind::kUnavailable)
          << maybe.error->message;
    }
  }
  changes.join();
  EXPECT_TRUE(harness.ask(request(prompt, "m:one")).choices == one.choices);
  expect_nothing_held(harness);
}

TEST_P(AdapterEngine, ComeBackWithAModelThatFailed) {
  EngineHarness harness(options());
  const TokenList prompt = random_tokens(100, 6);
  const Reply before = harness.ask(cold(prompt, "m:one"));
  ASSERT_TRUE(
      std::holds_alternative<protocol::AdapterCard>(harness.engine().unload_adapter("m", "two", 60s)));
  harness.faults().inject({.kind = Fault::Kind::kFailedStep, .after_steps = 0, .hang_ms = 0, .device = ""});
  EXPECT_TRUE(harness.ask(cold(prompt, "m:one")).error.has_value());
  Reply after;
  ASSERT_TRUE(harness.eventually([&] {
    after = harness.ask(cold(prompt, "m:one"));
    return !after.error.has_value();
  }));
  EXPECT_TRUE(after.choices == before.choices);
  EXPECT_TRUE(harness.ask(cold(prompt, "m:two")).error.has_value()) << "it was unloaded";
}

TEST_P(AdapterEngine, FailedAdapterIsReportedAndTheModelServes) {
  EngineOptions wrong = options();
  wrong.models.front().adapters.push_back({"three", folder("nowhere")});
  runtime::System system{{.workers = 2}};
  Engine engine(system, wrong);
  const auto error = engine.wait_until_ready(60s);
  ASSERT_TRUE(error.has_value());
  EXPECT_NE(error->message.find("nowhere"), std::string::npos);
  EXPECT_NE(engine.health().detail.find("adapter 'three' of model 'm' cannot be used"), std::string::npos);
  EXPECT_FALSE(read_all(engine.generate(request(random_tokens(20, 7), "m:one"))).error.has_value());
  const Reply failed = read_all(engine.generate(request(random_tokens(20, 7), "m:three")));
  EXPECT_EQ(failed.error->kind, ErrorKind::kUnavailable);
  EXPECT_EQ(engine.models().back().state, protocol::ModelCard::State::kFailed);
}

TEST_P(AdapterEngine, AdapterTooLargeForTheMemoryIsRefused) {
  EngineOptions small = options();
  small.models.front().adapters.clear();
  small.worker.state_bytes = 2ULL << 20;
  EngineHarness harness(small);
  models::test::write_random_adapter(folder("large"), models::ModelFiles::open(model_path("qwen3_5_text")),
                                     {"attn", "mlp"}, 500, 9);
  const Engine::AdapterAnswer answer =
      harness.engine().load_adapter("m", {.name = "l", .path = folder("large")}, 60s);
  ASSERT_TRUE(std::holds_alternative<protocol::Error>(answer));
  EXPECT_EQ(std::get<protocol::Error>(answer).kind, ErrorKind::kOverloaded);
  EXPECT_EQ(harness.figure("device_state_used_bytes"), 0);
  EXPECT_FALSE(harness.ask(random_tokens(30, 8)).error.has_value());
}

INSTANTIATE_TEST_SUITE_P(Devices, AdapterEngine, testing::ValuesIn(test_devices()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace reprise::actors

// Models on several devices in one engine: each answers as it does alone, and a device's failure does not
// affect the others.

#include "tests/actors/engine_harness.h"

namespace reprise::actors {
namespace {

using protocol::ErrorKind;

EngineOptions on_two_devices() {
  EngineOptions options = EngineHarness::defaults("cpu", "qwen3_5_text");
  options.models.push_back({.name = "grid", .path = model_path("qwen3_5_text"), .device = "cpu-grid"});
  options.max_reloads = 100;
  return options;
}

protocol::GenerateRequest request_of(const std::string& model, TokenList prompt,
                                     std::uint32_t max_tokens = 6) {
  protocol::GenerateRequest request = EngineHarness::request(std::move(prompt), max_tokens);
  request.model = model;
  return request;
}

TEST(DevicesTest, EachModelIsComputedWhereItWasPlaced) {
  EngineHarness both(on_two_devices());
  const TokenList prompt = random_tokens(300, 1);
  for (const auto& [model, device] : {std::pair{"m", "cpu"}, {"grid", "cpu-grid"}}) {
    EngineHarness alone(EngineHarness::defaults(device, "qwen3_5_text"));
    const std::uint64_t before = both.engine().device_figures(device).prefill_tokens.load();
    const Reply reply = both.ask(request_of(model, prompt));
    ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
    EXPECT_TRUE(reply.choices == alone.ask(prompt).choices) << device;
    EXPECT_EQ(both.engine().device_figures(device).prefill_tokens.load() - before, prompt.size()) << device;
    const Reply again = both.ask(request_of(model, prompt));
    EXPECT_TRUE(again.choices == reply.choices) << device;
    EXPECT_GT(again.cache.restored_tokens, 200U) << device;
  }
  EXPECT_GT(both.figure("device_state_used_bytes", "cpu"), 0);
  EXPECT_GT(both.figure("device_state_used_bytes", "cpu-grid"), 0);
  ASSERT_TRUE(both.engine().unload("m", 60s));
  EXPECT_EQ(both.figure("device_state_used_bytes", "cpu"), 0);
  EXPECT_GT(both.figure("device_state_used_bytes", "cpu-grid"), 0) << "the other's snapshots stay";
}

TEST(DevicesTest, AFaultStaysOnItsDevice) {
  EngineHarness harness(on_two_devices());
  const TokenList prompt = random_tokens(200, 2);
  const Reply good = harness.ask(request_of("m", prompt));
  auto running = harness.engine().generate(request_of("m", random_tokens(50, 3), 2000));
  ASSERT_TRUE(harness.eventually([&] { return harness.figure("sequences") > 0; }));
  harness.faults().inject(
      {.kind = Fault::Kind::kFailedStep, .after_steps = 0, .hang_ms = 0, .device = "cpu-grid"});
  const Reply broken = harness.ask(request_of("grid", prompt));
  ASSERT_TRUE(broken.error.has_value());
  const Reply whole = read_all(std::move(running));
  EXPECT_FALSE(whole.error.has_value()) << whole.error->message;
  EXPECT_TRUE(harness.ask(request_of("m", prompt)).choices == good.choices);
  EXPECT_TRUE(harness.eventually([&] { return harness.engine().health().ready; }))
      << harness.engine().health().detail;
  EXPECT_FALSE(harness.ask(request_of("grid", prompt)).error.has_value()) << "it was loaded anew";
}

TEST(DevicesTest, HungWorkerIsReplacedAndOthersContinue) {
  EngineOptions options = on_two_devices();
  options.max_step = 2000ms;
  EngineHarness harness(std::move(options));
  const TokenList prompt = random_tokens(200, 4);
  const Reply good = harness.ask(request_of("grid", prompt));
  harness.faults().inject(
      {.kind = Fault::Kind::kHang, .after_steps = 0, .hang_ms = 6000, .device = "cpu-grid"});
  auto hanging = harness.engine().generate(request_of("grid", random_tokens(90, 5), 4));
  auto running = harness.engine().generate(request_of("m", random_tokens(50, 6), 3000));
  const Reply told = read_all(std::move(hanging));
  ASSERT_TRUE(told.error.has_value());
  EXPECT_EQ(told.error->kind, ErrorKind::kUnavailable) << told.error->message;
  const Reply whole = read_all(std::move(running));
  EXPECT_FALSE(whole.error.has_value()) << whole.error->message;
  EXPECT_TRUE(harness.eventually([&] { return harness.engine().health().ready; }))
      << harness.engine().health().detail;
  const Reply after = harness.ask(request_of("grid", prompt));
  ASSERT_FALSE(after.error.has_value()) << after.error->message;
  EXPECT_TRUE(after.choices == good.choices);
}

TEST(DevicesTest, ADeviceThatIsNotThereFailsItsModelAlone) {
  EngineOptions options = EngineHarness::defaults("cpu", "qwen3_5_text");
  EngineHarness harness(std::move(options));
  const auto loaded =
      harness.engine().load({.name = "far", .path = model_path("qwen3"), .device = "tpu:3"}, 60s);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().message.find("'tpu:3' is not one of"), std::string::npos)
      << loaded.error().message;
  EXPECT_NE(harness.engine().health().detail.find("tpu:3"), std::string::npos);
  EXPECT_FALSE(harness.ask(random_tokens(20, 7)).error.has_value());
  EXPECT_TRUE(harness.engine().unload("far", 60s));
  EXPECT_TRUE(harness.engine().health().ready) << harness.engine().health().detail;
}

}  // namespace
}  // namespace reprise::actors

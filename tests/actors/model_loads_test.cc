// Models on their way into memory: how far they are is seen by whoever looks, and ends at the whole.

#include "actors/worker/model_loads.h"

#include <gtest/gtest.h>

#include "gpu/threads.h"
#include "tests/actors/engine_harness.h"

namespace reprise::actors {
namespace {

ModelLoads::Job job_of(ModelLoads::Make make, const std::shared_ptr<protocol::LoadMeter>& meter) {
  return {.make = std::move(make), .aside = false, .done = [] {}, .reply = {}, .meter = meter};
}

TEST(ModelLoadsTest, AMeterShowsHowFarALoadIs) {
  gpu::Threads threads(1);
  const auto meter = std::make_shared<protocol::LoadMeter>();
  std::vector<std::uint32_t> seen;
  ModelLoads loads;
  loads.add(job_of(
      [&](const models::LoadProgress& progress) {
        return models::Model::load(model_path("qwen3"), {}, threads, nullptr,
                                   [&](std::uint64_t done, std::uint64_t total) {
                                     progress(done, total);
                                     seen.push_back(meter->permille.load());
                                   });
      },
      meter));
  const ModelLoads::Result result = loads.take();
  ASSERT_FALSE(result.error.has_value()) << result.error->message;
  ASSERT_EQ(seen.size(), result.model->config().layers.size()) << "a report for each layer";
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_GT(seen.front(), 0U);
  EXPECT_EQ(seen.back(), 500U) << "the weights are in order, but not read through";
  EXPECT_EQ(meter->permille.load(), 1000U);
}

TEST(ModelLoadsTest, AFailedLoadLeavesItsMeterWhereItStood) {
  const auto meter = std::make_shared<protocol::LoadMeter>();
  ModelLoads loads;
  loads.add(job_of(
      [](const models::LoadProgress& progress) -> std::unique_ptr<models::Model> {
        progress(1, 4);
        throw std::runtime_error("the file is torn");
      },
      meter));
  const ModelLoads::Result result = loads.take();
  ASSERT_TRUE(result.error.has_value());
  EXPECT_EQ(result.error->message, "the file is torn");
  EXPECT_EQ(meter->permille.load(), 125U);
}

}  // namespace
}  // namespace reprise::actors

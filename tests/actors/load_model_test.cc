// The progress of loading models is visible while they load, and ends at 100 %.

#include <gtest/gtest.h>

#include "actors/device/load_model.h"
#include "gpu/threads.h"
#include "tests/actors/engine_harness.h"

namespace reprise::actors {
namespace {

TEST(LoadModelTest, AMeterShowsHowFarItIs) {
  gpu::Threads threads(1);
  protocol::LoadMeter meter;
  std::vector<std::uint32_t> seen;
  const std::atomic<bool> stopping{false};
  const LoadedModel loaded = load_model(
      [&](const models::LoadProgress& progress) {
        return models::load_on_cpu(model_path("qwen3"), {}, threads, nullptr,
                                   [&](std::uint64_t done, std::uint64_t total) {
                                     progress(done, total);
                                     seen.push_back(meter.permille.load());
                                   });
      },
      stopping, &meter);
  ASSERT_EQ(seen.size(), loaded.model->config().layers.size()) << "a report for each layer";
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_GT(seen.front(), 0U);
  EXPECT_EQ(seen.back(), 500U) << "the weights are in order, but not read through";
  EXPECT_EQ(meter.permille.load(), 1000U);
}

TEST(LoadModelTest, AFailureLeavesItsMeterWhereItStood) {
  protocol::LoadMeter meter;
  const MakeModel make = [](const models::LoadProgress& progress) -> std::unique_ptr<models::Model> {
    progress(1, 4);
    throw std::runtime_error("the file is torn");
  };
  EXPECT_THROW(load_model(make, std::atomic<bool>(false), &meter), std::runtime_error);
  EXPECT_EQ(meter.permille.load(), 125U);
}

TEST(LoadModelTest, ItStopsWhereItIsAskedTo) {
  protocol::LoadMeter meter;
  const MakeModel make = [](const models::LoadProgress& progress) -> std::unique_ptr<models::Model> {
    progress(1, 4);
    ADD_FAILURE() << "the report should have ended it";
    return nullptr;
  };
  EXPECT_THROW(load_model(make, std::atomic<bool>(true), &meter), std::runtime_error);
  EXPECT_EQ(meter.permille.load(), 0U);
}

}  // namespace
}  // namespace reprise::actors

// Devices without a supervisor: one worker each, replaced when it hangs.

#include "actors/supervised_devices.h"

#include <gtest/gtest.h>

#include "runtime/system.h"
#include "tests/eventually.h"

namespace reprise::actors {
namespace {

using namespace std::chrono_literals;

class SupervisedDevicesTest : public testing::Test {
 protected:
  std::vector<std::string> spawned_;
  runtime::System system_{{.workers = 1}};
  const std::shared_ptr<DeviceMetrics> metrics_ = std::make_shared<DeviceMetrics>();
  SupervisedDevices devices_{{}, metrics_, [this](WorkerOptions options) {
                               spawned_.push_back(options.device);
                               EXPECT_EQ(options.figures, metrics_->of(options.device));
                               return system_.spawn<DeviceWorker>({}, std::move(options));
                             }};
};

TEST_F(SupervisedDevicesTest, ADeviceHasOneWorker) {
  SupervisedDevice& cpu = devices_.get("cpu");
  EXPECT_EQ(&devices_.get("cpu"), &cpu);
  SupervisedDevice& grid = devices_.get("cpu-grid");
  EXPECT_EQ(spawned_, (std::vector<std::string>{"cpu", "cpu-grid"}));
  EXPECT_EQ(devices_.find("cuda:0"), nullptr);
  EXPECT_EQ(devices_.with_worker(grid.worker.id()), &grid);
}

TEST_F(SupervisedDevicesTest, AReplacedWorkerHoldsNothing) {
  SupervisedDevice& cpu = devices_.get("cpu");
  const auto before = cpu.worker;
  WorkerFigures::set(cpu.figures->sequences, 3);
  WorkerFigures::set(cpu.figures->used_bytes, 4096);
  devices_.replace_worker(cpu);
  EXPECT_NE(cpu.worker, before);
  EXPECT_TRUE(eventually([&] { return before.stopped(); }));
  EXPECT_EQ(devices_.with_worker(before.id()), nullptr);
  EXPECT_EQ(cpu.figures->sequences.load(), 0U);
  EXPECT_EQ(cpu.figures->used_bytes.load(), 0U);
}

TEST_F(SupervisedDevicesTest, AStepThatExceedsThePatienceHangs) {
  SupervisedDevice& cpu = devices_.get("cpu");
  const StepPatience patience{.floor = 2s};
  cpu.figures->step_began_ns = 1;
  std::string why;
  for (int tenths = 0; tenths <= 20; ++tenths) {
    why = SupervisedDevices::hang_of(cpu, patience, 100ms * tenths);
    EXPECT_EQ(why, "") << tenths;
  }
  EXPECT_EQ(SupervisedDevices::hang_of(cpu, patience, 2100ms),
            "the device hangs: the running step has taken 2100 ms");
  devices_.replace_worker(cpu);
  EXPECT_EQ(SupervisedDevices::hang_of(cpu, patience, 2200ms), "") << "the new worker runs no step";
}

}  // namespace
}  // namespace reprise::actors

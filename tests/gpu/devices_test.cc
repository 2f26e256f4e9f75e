#include "gpu/devices.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace reprise::gpu {
namespace {

TEST(ListDevices, DescribesEachDevice) {
  int previous_index = -1;
  for (const DeviceInfo& device : list_devices()) {
    EXPECT_GT(device.index, previous_index);
    EXPECT_FALSE(device.name.empty());
    EXPECT_GT(device.total_bytes, 0u);
    EXPECT_LE(device.free_bytes, device.total_bytes);
    EXPECT_GT(device.compute_major, 0);
    previous_index = device.index;
  }
}

TEST(ListDevices, AnswersTheSameDevicesAgain) {
  EXPECT_EQ(list_devices().size(), list_devices().size());
}

TEST(ListDevices, IsEmptyWithoutCudaOrWithoutGpu) {
#ifdef REPRISE_HAS_CUDA
  if (std::filesystem::exists("/dev/nvidia0")) GTEST_SKIP() << "this machine has an NVIDIA GPU";
#endif
  EXPECT_TRUE(list_devices().empty());
}

}  // namespace
}  // namespace reprise::gpu

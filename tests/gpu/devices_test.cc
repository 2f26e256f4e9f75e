#include "gpu/devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gpu/kernels.h"
#include "tests/require.h"

namespace reprise::gpu {
namespace {

TEST(ListDevices, DescribesEachDevice) {
  const std::vector<DeviceInfo> devices = list_devices();
  if (devices.empty())
    REPRISE_SKIP_WITHOUT("gpu", "no CUDA device: tests that take every device leave it out");
  const std::vector<DeviceInfo> again = list_devices();
  ASSERT_EQ(devices.size(), again.size());
  int previous_index = -1;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceInfo& device = devices[i];
    EXPECT_GT(device.index, previous_index);
    EXPECT_FALSE(device.name.empty());
    EXPECT_GT(device.total_bytes, 0u);
    EXPECT_LE(device.free_bytes, device.total_bytes);
    EXPECT_GT(device.compute_major, 0);
    EXPECT_EQ(again[i].index, device.index);
    EXPECT_EQ(again[i].name, device.name);
    EXPECT_EQ(again[i].total_bytes, device.total_bytes);
    previous_index = device.index;
  }
}

[[maybe_unused]] bool a_driver_shows_a_gpu() {
  bool found = false;
  for (int i = 0; i < 64; ++i) found = found || std::filesystem::exists("/dev/nvidia" + std::to_string(i));
  return found;
}

// If a GPU were missing from the list, all its tests would be skipped.
TEST(ListDevices, FindsAGpuWhereTheDriverShowsOneAndElseNone) {
#ifdef REPRISE_HAS_CUDA
  if (std::getenv("CUDA_VISIBLE_DEVICES") != nullptr || std::filesystem::exists("/dev/dxg")) {
    REPRISE_SKIP_WITHOUT("gpu", "CUDA_VISIBLE_DEVICES, or WSL, decides what is listed");
  }
  EXPECT_EQ(list_devices().empty(), !a_driver_shows_a_gpu());
#else
  EXPECT_TRUE(list_devices().empty());
#endif
}

/// Kernel tests cover available_isas(); this suite skips visibly for each ISA the machine lacks.
class InstructionSet : public testing::TestWithParam<Isa> {};

TEST_P(InstructionSet, IsTestedWhereTheProcessorHasIt) {
  const Isa isa = GetParam();
  if (!is_available(isa)) {
    REPRISE_SKIP_WITHOUT(reprise::test::Need::named(name_of(isa)), "tests of kernels leave this set out");
  }
  EXPECT_EQ(cpu_kernels(isa).isa, isa);
}

std::vector<Isa> sets_of_this_architecture() {
#if defined(__aarch64__)
  return {Isa::kNeon, Isa::kNeonDotprod, Isa::kNeonI8mm};
#else
  return {Isa::kAvx2, Isa::kAvx2Vnni, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAvx512Amx};
#endif
}

INSTANTIATE_TEST_SUITE_P(OfThisArchitecture, InstructionSet, testing::ValuesIn(sets_of_this_architecture()),
                         [](const auto& info) {
                           std::string name(name_of(info.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace reprise::gpu

#pragma once
// Fixture base for kernel tests: a stream on the first GPU and copies to and from it. Without a GPU the tests
// skip.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"
#include "gpu/devices.h"
#include "tests/gpu/kernel_inputs.h"
#include "tests/require.h"

namespace reprise::gpu::test {

/// Fixture: testing::Test or testing::TestWithParam.
template <class Fixture>
class CudaRig : public Fixture {
 protected:
  void SetUp() override {
    if (list_devices().empty()) REPRISE_SKIP_WITHOUT("gpu", "no GPU");
    stream_.emplace();
  }

  /// Allocates a few bytes even for an empty vector.
  template <class T>
  cuda::DeviceBytes upload(const std::vector<T>& values) {
    constexpr std::size_t kMin = 16;
    cuda::DeviceBytes bytes(std::max(kMin, values.size() * sizeof(T)));
    cuda::copy_to_device(bytes.data(), values.data(), values.size() * sizeof(T), stream_->handle());
    stream_->wait();
    return bytes;
  }
  template <class T>
  std::vector<T> download(const void* from, std::size_t count) {
    std::vector<T> values(count);
    cuda::copy_to_host(values.data(), static_cast<const std::byte*>(from), count * sizeof(T),
                       stream_->handle());
    stream_->wait();
    return values;
  }
  template <class T>
  std::vector<T> download(const cuda::DeviceBytes& bytes, std::size_t count) {
    return download<T>(bytes.data(), count);
  }
  template <class T>
  std::vector<T> download(const cuda::DeviceBytes& bytes) {
    return download<T>(bytes.data(), bytes.size() / sizeof(T));
  }

  std::optional<cuda::Stream> stream_;
};

inline std::vector<cuda::Bf16> random_bf16(Random& random, std::size_t count) {
  const std::vector<float> values = random.floats(count);
  std::vector<cuda::Bf16> out(count);
  plain().to_bf16(values.data(), out.data(), count);
  return out;
}

}  // namespace reprise::gpu::test

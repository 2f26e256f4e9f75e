#pragma once
// Runs sequence kernels on a GPU in one slice, in two, and batched with another sequence. Without a GPU the
// tests skip.

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "gpu/cuda/memory/stream.h"
#include "gpu/cuda/rows/batch.h"
#include "gpu/devices.h"
#include "tests/gpu/cuda_rig.h"
#include "tests/gpu/kernel_inputs.h"

namespace reprise::gpu::test {

using cuda::Batch;
using cuda::BatchSlice;
using cuda::Bf16;
using cuda::DeviceBytes;

inline constexpr int kTokens = 70;
inline constexpr int kStrangers = 5;  // rows of another sequence, after ours
inline constexpr int kRows = kTokens + kStrangers;

class CudaScan : public CudaRig<testing::Test> {
 public:
  template <class Y>
  struct Result {
    std::vector<Y> y;
    std::vector<float> slot;
  };

 protected:
  /// Memory with arbitrary contents.
  DeviceBytes spoiled(std::size_t bytes) {
    DeviceBytes out(std::max<std::size_t>(256, bytes));
    cuda::fill(out.data(), 0xff, out.size(), stream_->handle());
    return out;
  }

  /// Calls launch(batch) for contiguous slices from row 0, in any order.
  template <class Launch>
  void run(const std::vector<BatchSlice>& slices, const Launch& launch) {
    int rows = 0;
    for (const BatchSlice& slice : slices) rows = std::max(rows, slice.first_row + slice.rows);
    std::vector<std::int32_t> row_slice(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < slices.size(); ++i) {
      for (int row = 0; row < slices[i].rows; ++row) {
        row_slice[static_cast<std::size_t>(slices[i].first_row + row)] = static_cast<std::int32_t>(i);
      }
    }
    const DeviceBytes on_slices = upload(slices);
    const DeviceBytes on_rows = upload(row_slice);
    launch(Batch{.slices = on_slices.as<BatchSlice>(),
                 .tiles = nullptr,
                 .row_slice = on_rows.as<std::int32_t>(),
                 .tokens = nullptr,
                 .positions = nullptr,
                 .slice_count = static_cast<int>(slices.size()),
                 .tile_count = 0,
                 .rows = rows,
                 .longest = rows});
    stream_->wait();
  }

  /// Runs a kernel on kTokens rows in one slice, in two, and batched with another sequence; the results must
  /// be bitwise identical. launch(batch, first, y) reads inputs from row `first`; y is [kRows, width].
  /// Returns the first result with the slot after it.
  template <class Y, class Launch>
  Result<Y> same_however_cut(const std::vector<float>& slot, std::size_t width, const Launch& launch) {
    const auto once = [&](const auto& pieces) {
      DeviceBytes on_slot = upload(slot);
      DeviceBytes y = upload(std::vector<Y>(kRows * width));
      pieces(on_slot.data(), y);
      return Result<Y>{download<Y>(y, kTokens * width), download<float>(on_slot, slot.size())};
    };
    const auto piece = [&](std::byte* on_slot, const DeviceBytes& y, int first, int rows) {
      run({{.first_row = 0, .rows = rows, .stored = first, .slot = on_slot, .pages = nullptr}},
          [&](const Batch& batch) {
            launch(batch, static_cast<std::size_t>(first),
                   y.as<Y>() + static_cast<std::size_t>(first) * width);
          });
    };
    const Result<Y> whole =
        once([&](std::byte* on_slot, const DeviceBytes& y) { piece(on_slot, y, 0, kTokens); });
    for (const int cut : {1, 2, 33, 64, kTokens - 1}) {
      const Result<Y> two = once([&](std::byte* on_slot, const DeviceBytes& y) {
        piece(on_slot, y, 0, cut);
        piece(on_slot, y, cut, kTokens - cut);
      });
      EXPECT_TRUE(same_bits(two.y, whole.y)) << "cut at " << cut;
      EXPECT_TRUE(same_bits(two.slot, whole.slot)) << "cut at " << cut;
    }
    DeviceBytes other = upload(std::vector<float>(slot.size(), 0.25F));
    const Result<Y> batched = once([&](std::byte* on_slot, const DeviceBytes& y) {
      run({{.first_row = kTokens, .rows = kStrangers, .stored = 0, .slot = other.data(), .pages = nullptr},
           {.first_row = 0, .rows = kTokens, .stored = 0, .slot = on_slot, .pages = nullptr}},
          [&](const Batch& batch) { launch(batch, std::size_t{0}, y.as<Y>()); });
    });
    EXPECT_TRUE(same_bits(batched.y, whole.y)) << "beside a stranger";
    EXPECT_TRUE(same_bits(batched.slot, whole.slot)) << "beside a stranger";
    return whole;
  }
};

inline std::vector<Bf16> halves_of(const std::vector<float>& values) {
  std::vector<Bf16> out(values.size());
  plain().to_bf16(values.data(), out.data(), values.size());
  return out;
}
inline std::vector<float> widened(const std::vector<Bf16>& values) {
  std::vector<float> out;
  for (const Bf16 value : values) out.push_back(from_bf16(value));
  return out;
}
inline std::vector<float> widened(std::vector<float> values) {
  return values;
}
template <class Row>
std::vector<Row> as_rows(const std::vector<float>& values) {
  if constexpr (std::is_same_v<Row, float>) {
    return values;
  } else {
    return halves_of(values);
  }
}
template <class Row>
constexpr float tolerance_of(float of_bf16, float of_f32) {
  return std::is_same_v<Row, float> ? of_f32 : of_bf16;
}

/// Tolerance is relative to the largest magnitude.
inline void expect_near(const std::vector<float>& got, const std::vector<float>& wanted, float tolerance,
                        const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size());
  float largest = 0;
  for (const float value : wanted) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], wanted[i], tolerance * largest) << what << " at " << i;
  }
}

}  // namespace reprise::gpu::test

// File types (DType) and kernel formats correspond.

#include <gtest/gtest.h>

#include "gpu/kernels.h"
#include "models/files/dtype.h"

namespace reprise::models {
namespace {

TEST(FormatOf, EveryFormatIsATypeOfFilesWithTheSameBlocks) {
  std::size_t usable = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(DType::kCount); ++i) {
    const auto type = static_cast<DType>(i);
    const gpu::WeightFormat* format = format_of(type);
    if (format == nullptr) continue;
    ++usable;
    EXPECT_EQ(format->name, info(type).name);
    EXPECT_EQ(format->block_size, info(type).block_size) << format->name;
    EXPECT_EQ(format->block_bytes, info(type).block_bytes) << format->name;
  }
  EXPECT_EQ(usable, gpu::cpu_kernels(gpu::Isa::kPlain).formats.size());
}

TEST(FormatOf, IsWhatTheTableHas) {
  EXPECT_EQ(format_of(DType::kF32), &gpu::kF32Format);
  EXPECT_EQ(format_of(DType::kF16), &gpu::kF16Format);
  EXPECT_EQ(format_of(DType::kBF16), &gpu::kBF16Format);
  EXPECT_EQ(format_of(DType::kI8), nullptr);  // not a weight type
}

}  // namespace
}  // namespace reprise::models

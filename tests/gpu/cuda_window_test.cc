// Sliding-window attention on a GPU compared with the CPU, and bitwise with itself: the rows it attends to,
// and the ring of keys and values.
#include <gtest/gtest.h>

#include "gpu/devices.h"
#include "tests/gpu/cuda_attention_rig.h"
#include "tests/require.h"

namespace reprise::gpu::cuda::test {
namespace {

using gpu::test::same_bits;

class CudaWindow : public testing::TestWithParam<AttentionShape> {
 protected:
  void SetUp() override {
    if (list_devices().empty()) REPRISE_SKIP_WITHOUT("gpu", "no GPU");
  }
};

INSTANTIATE_TEST_SUITE_P(Windows, CudaWindow, testing::ValuesIn(shapes_with_windows()), [](const auto& info) {
  return "head_dim_" + std::to_string(info.param.head_dim) + "_window_" + std::to_string(info.param.window);
});

TEST_P(CudaWindow, PrefillIsThatOfTheCpu) {
  Rig rig(GetParam(), 40, 21);
  compare_prefill(rig, {1, 64, 65, 200, 777});
}

TEST_P(CudaWindow, DecodeIsThatOfTheCpu) {
  Rig rig(GetParam(), 40, 22);
  std::vector<Sequence> sequences;
  std::vector<Piece> history;
  for (const int length : {2, 64, 130, 257, 600}) sequences.push_back(rig.sequence(length + 130));
  for (const Sequence& sequence : sequences) history.push_back({&sequence, 0, sequence.length - 130});
  rig.prefill(history);
  for (int step = 130; step > 0; --step) {  // across page boundaries, so that ring entries are overwritten
    std::vector<Piece> next;
    for (const Sequence& sequence : sequences) {
      next.push_back({&sequence, sequence.length - step, sequence.length - step + 1});
    }
    const std::vector<Bf16> out = rig.decode(next);
    if (step % 43 != 1) continue;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      Sequence so_far = sequences[i];
      so_far.length -= step - 1;
      EXPECT_TRUE(close(out.data() + i * rig.width(), rig.reference(so_far, so_far.length - 1), rig.width()))
          << "position " << so_far.length - 1;
    }
  }
}

TEST_P(CudaWindow, BitsAndTheRingDoNotDependOnHowAPromptIsSliced) {
  constexpr int kLength = 500;
  Rig rig(GetParam(), 20, 23);
  const Sequence sequence = rig.sequence(kLength);
  const std::vector<Bf16> whole = rig.prefill({{&sequence, 0, kLength}});
  const std::vector<std::byte> ring = rig.ring(sequence);
  const std::vector<std::vector<int>> cuts = {{64}, {448}, {128, 192}, {64, 128, 192, 256, 320, 384, 448}};
  for (const std::vector<int>& cut : cuts) {
    rig.forget();
    EXPECT_TRUE(same_bits(rig.prefill_cut(sequence, cut), whole))
        << "first cut at " << cut[0] << " of " << cut.size();
    EXPECT_EQ(rig.ring(sequence), ring) << "first cut at " << cut[0] << " of " << cut.size();
  }
}

TEST_P(CudaWindow, BitsDoNotDependOnOtherSequences) {
  Rig rig(GetParam(), 60, 24);
  const Sequence own = rig.sequence(322);
  const Sequence longer = rig.sequence(700);
  const Sequence shorter = rig.sequence(30);
  const std::vector<Bf16> alone = rig.prefill({{&own, 0, 321}});
  const std::vector<Bf16> decoded_alone = rig.decode({{&own, 321, 322}});
  const std::vector<std::byte> ring = rig.ring(own);
  rig.forget();
  const std::vector<Bf16> batched = rig.prefill({{&shorter, 0, 29}, {&own, 0, 321}, {&longer, 0, 699}});
  EXPECT_TRUE(same_bits(rows_of(batched, 29, 350, rig.width()), alone));
  const std::vector<Bf16> decoded = rig.decode({{&longer, 699, 700}, {&shorter, 29, 30}, {&own, 321, 322}});
  EXPECT_TRUE(same_bits(rows_of(decoded, 2, 3, rig.width()), decoded_alone));
  EXPECT_EQ(rig.ring(own), ring);
}

}  // namespace
}  // namespace reprise::gpu::cuda::test

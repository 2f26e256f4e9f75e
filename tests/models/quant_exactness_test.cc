// Every weight format with every ISA of this machine: slicing, batching with another sequence, decoding and
// several threads give the bits of a single pass.

#include <gtest/gtest.h>

#include "tests/models/family_runs.h"
#include "tests/temp_dir.h"
#include "tools/lab/random_model/write.h"

namespace reprise::models::test {
namespace {

const char* const kTypes[] = {"F32",  "F16",  "BF16", "Q8_0", "Q4_0", "Q4_1",   "Q5_0",   "Q5_1",
                              "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"};

/// Rows of whole 256-element blocks, and matrices whose last tile of outputs is partial.
tools::RandomShape shape_of_blocks() {
  tools::RandomShape shape = *tools::shape_named("qwen3_5-tiny");
  shape.hidden = 256;
  shape.intermediate = 768;
  shape.head_dim = 64;
  shape.key_head_dim = shape.value_head_dim = 64;
  shape.vocab = 203;
  return shape;
}

class QuantExactness : public testing::TestWithParam<gpu::Isa> {
 protected:
  static constexpr std::size_t kTokens = 75;  // of a prompt: more than two tiles of rows, the last partial

  struct Runner {
    gpu::Threads threads;
    std::unique_ptr<Model> model;
    gpu::StateStore store;

    Runner(const std::filesystem::path& file, gpu::Isa isa, unsigned count)
        : threads(count),
          model(load_on_cpu(file, {.compute = gpu::Compute::kAuto, .kv = gpu::KvType::kBF16, .isa = isa},
                            threads)),
          store(model->state().sizes(), {.pages = 12, .slots = 3}) {}

    gpu::Sequence open() {
      std::optional<gpu::Sequence> sequence = store.open();
      EXPECT_TRUE(sequence.has_value() && sequence->reserve(kTokens));
      return std::move(*sequence);
    }
    std::vector<float> run(std::span<const Slice> slices) {
      const std::span<const float> logits = model->forward(slices);
      return {logits.begin(), logits.end()};
    }
  };

  static Slice slice_of(gpu::Sequence& sequence, std::span<const TokenId> tokens) {
    return {.sequence = &sequence, .tokens = tokens, .logits = Slice::Logits::kAll};
  }
};

TEST_P(QuantExactness, HoldsForEveryFormat) {
  const reprise::test::TempDir folder;
  std::vector<TokenId> tokens(kTokens);
  for (std::size_t i = 0; i < kTokens; ++i) tokens[i] = static_cast<TokenId>((i * 37 + 11) % 203);
  const std::span<const TokenId> all(tokens);
  for (const char* type : kTypes) {
    SCOPED_TRACE(type);
    const std::filesystem::path file = folder.path() / (std::string(type) + ".gguf");
    tools::write_random_gguf(shape_of_blocks(), tools::GgufTypes(type), 5, file);
    Runner one(file, GetParam(), 1);
    gpu::Sequence whole = one.open();
    const Slice pass = slice_of(whole, all);
    const std::vector<float> expected = one.run({&pass, 1});
    const std::size_t vocab = expected.size() / kTokens;

    Runner three(file, GetParam(), 3);
    gpu::Sequence cut = three.open();
    gpu::Sequence other = three.open();
    std::size_t done = 0;
    for (const std::size_t rows : {33, 1, 7, 16, 9, 1, 1, 7}) {
      const Slice both[] = {slice_of(cut, all.subspan(done, rows)),
                            slice_of(other, all.subspan(kTokens - done - rows, rows))};
      std::vector<float> logits = three.run(both);
      logits.resize(rows * vocab);
      ASSERT_TRUE(same_logits(logits, expected, done, vocab)) << rows << " tokens";
      done += rows;
    }
    ASSERT_EQ(done, kTokens);
  }
}

/// All ISAs; under a sanitizer only the best.
std::vector<gpu::Isa> tested_isas() {
  if (kSanitized) return {gpu::best_isa()};
  return gpu::available_isas();
}

INSTANTIATE_TEST_SUITE_P(, QuantExactness, testing::ValuesIn(tested_isas()),
                         [](const testing::TestParamInfo<gpu::Isa>& isa) { return test_name_of(isa.param); });

}  // namespace
}  // namespace reprise::models::test

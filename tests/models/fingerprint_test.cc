#include "models/fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "gpu/threads.h"
#include "models/model.h"
#include "tests/models/files/checkpoint_files.h"
#include "tests/source_folder.h"

namespace reprise::models {
namespace {

class FingerprintTest : public testing::Test {
 protected:
  FingerprintTest() {
    std::filesystem::copy(source_folder() / "tests/data/models/qwen3_5_text", folder(),
                          std::filesystem::copy_options::recursive);
  }
  std::filesystem::path folder() const { return dir_.path() / "model"; }

  Fingerprint fingerprint(const ComputeOptions& options = {.compute = gpu::Compute::kF32}) {
    return fingerprint_of(*load_on_cpu(folder(), options, threads_));
  }
  void change(const std::string& file, std::int64_t from_end, char xor_with) {
    std::fstream stream(folder() / file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(-from_end, std::ios::end);
    const char old = static_cast<char>(stream.get());
    stream.seekp(-from_end, std::ios::end);
    stream.put(static_cast<char>(old ^ xor_with));
    ASSERT_TRUE(stream.good());
  }

  test::TempDir dir_;
  gpu::Threads threads_{1};
};

TEST_F(FingerprintTest, IsTheSameForTheSame) {
  EXPECT_EQ(fingerprint(), fingerprint());
  EXPECT_EQ(fingerprint().all(), fingerprint().all());
}

TEST_F(FingerprintTest, EveryBitOfTheWeightsCounts) {
  const Fingerprint first = fingerprint();
  for (const std::int64_t offset : {1, 1000, 5000}) {  // includes the middle of tensors
    change("model.safetensors", offset, 1);
    const Fingerprint changed = fingerprint();
    EXPECT_NE(changed.weights, first.weights) << offset;
    EXPECT_NE(changed.all(), first.all()) << offset;
    EXPECT_EQ(changed.model, first.model);
    EXPECT_EQ(changed.arithmetic, first.arithmetic);
    change("model.safetensors", offset, 1);
  }
  EXPECT_EQ(fingerprint(), first);
}

TEST_F(FingerprintTest, HyperParametersCount) {
  const Fingerprint first = fingerprint();
  std::string config;
  {
    std::ifstream in(folder() / "config.json");
    config.assign(std::istreambuf_iterator<char>(in), {});
  }
  const std::size_t at = config.find("\"rms_norm_eps\"");
  ASSERT_NE(at, std::string::npos);
  config.replace(config.find(':', at) + 1, config.find_first_of(",}\n", at) - config.find(':', at) - 1,
                 " 1e-4");
  std::ofstream(folder() / "config.json") << config;
  const Fingerprint changed = fingerprint();
  EXPECT_EQ(changed.weights, first.weights);
  EXPECT_NE(changed.model, first.model);
}

TEST_F(FingerprintTest, ComputeSettingsAndKernelsCount) {
  const Fingerprint first = fingerprint();
  EXPECT_NE(fingerprint({.compute = gpu::Compute::kAuto}).model, first.model);
  EXPECT_NE(fingerprint({.compute = gpu::Compute::kF32, .kv = gpu::KvType::kF32}).model, first.model);
  EXPECT_NE(fingerprint({.compute = gpu::Compute::kAuto, .kv = gpu::KvType::kInt8}).model,
            fingerprint({.compute = gpu::Compute::kAuto}).model);
  if (gpu::best_isa() != gpu::Isa::kPlain) {
    const Fingerprint plain = fingerprint({.compute = gpu::Compute::kF32, .isa = gpu::Isa::kPlain});
    EXPECT_EQ(plain.model, first.model);
    EXPECT_NE(plain.arithmetic, first.arithmetic);
  }
}

}  // namespace
}  // namespace reprise::models

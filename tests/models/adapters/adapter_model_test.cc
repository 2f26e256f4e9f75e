// Models with adapters: results equal those of merged weights, and rows depend on their own adapter only.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "models/model.h"
#include "tests/models/adapters/tiny_adapter.h"
#include "tests/models/expect_error.h"

namespace reprise::models {
namespace {

using gpu::Compute;
using gpu::Sequence;
using test::TempDir;
using test::TinyAdapter;
using test::TinyModel;
using test::TinyOptions;

TinyOptions options_of(const std::string& type) {
  TinyOptions options{.type = type, .hidden = 16, .layers = 4, .vocab = 37, .intermediate = 24};
  options.key_dim = options.value_dim = 8;
  return options;
}

const std::vector<std::string> kAll{"proj", "lm_head"};

struct Files {
  explicit Files(const std::string& type, bool tied = false)
      : model([&] {
          TinyOptions options = options_of(type);
          options.tied = tied;
          return options;
        }()) {
    std::filesystem::create_directories(folder());
    TinyAdapter::write(folder() / "config.json", model.config_json());
    TinyAdapter::write(folder() / "model.safetensors", model.safetensors().bytes());
    TinyAdapter::write(gguf(), model.gguf().bytes());
  }
  std::filesystem::path folder() const { return dir.path() / "base"; }
  std::filesystem::path gguf() const { return dir.path() / "base.gguf"; }
  /// The tiny writers split fused matrices by the model's width, so fused ones need that rank.
  std::size_t rank() const { return model.is_next() ? model.o.hidden : 3; }

  TempDir dir;
  TinyModel model;
};

struct Loaded {
  Loaded(const std::filesystem::path& path, Compute compute, unsigned count = 2)
      : threads(count),
        model(load_on_cpu(
            path,
            {.compute = compute, .kv = compute == Compute::kF32 ? gpu::KvType::kF32 : gpu::KvType::kBF16},
            threads)),
        store(std::make_unique<gpu::StateStore>(model->state().sizes(),
                                                gpu::StateBounds{.pages = 100, .slots = 32})) {}

  void add(AdapterKey key, const std::filesystem::path& path) {
    model->add_adapter(key, Adapter::open(path, model->config()));
  }
  Sequence open() {
    std::optional<Sequence> sequence = store->open();
    EXPECT_TRUE(sequence && sequence->reserve(64));
    return std::move(*sequence);
  }
  /// Returns the logits of all tokens.
  std::vector<float> run(std::span<const TokenId> tokens, AdapterKey adapter) {
    Sequence sequence = open();
    const Slice slice{
        .sequence = &sequence, .tokens = tokens, .logits = Slice::Logits::kAll, .adapter = adapter};
    const std::span<const float> logits = model->forward({&slice, 1});
    return {logits.begin(), logits.end()};
  }

  gpu::Threads threads;
  std::unique_ptr<Model> model;
  std::unique_ptr<gpu::StateStore> store;
};

const std::vector<TokenId> kTokens{1, 5, 9, 30, 36, 2, 2, 17, 4, 8, 0, 11};

float largest(const std::vector<float>& values) {
  float out = 0;
  for (const float value : values) out = std::max(out, std::abs(value));
  return out;
}

float distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float out = 0;
  for (std::size_t i = 0; i < a.size(); ++i) out = std::max(out, std::abs(a[i] - b[i]));
  return out;
}

class AdapterFamilies : public testing::TestWithParam<const char*> {};

// In f32 the two differ by rounding of one more sum per GEMM: within 1e-4 of the largest logit.
TEST_P(AdapterFamilies, AdapterAppliedIsTheMergedModel) {
  const Files files(GetParam());
  // Rounding in a router's weights propagates through all later layers.
  const float bound =
      parts_of<MoeSpec>(ModelFiles::open(files.folder()).config().layers).empty() ? 2e-5F : 2e-4F;
  const TinyAdapter adapter(files.model, kAll, files.rank(), 4, 7);
  ASSERT_GE(adapter.changes.size(), 8U);
  const auto peft = files.dir.path() / "peft";
  const auto gguf = files.dir.path() / "adapter.gguf";
  adapter.write_peft(peft);
  adapter.write_gguf(gguf);
  adapter.write_merged(files.dir.path() / "merged");
  Loaded merged(files.dir.path() / "merged", Compute::kF32);
  const std::vector<float> wanted = merged.run(kTokens, 0);

  for (const auto& base : {files.folder(), files.gguf()}) {
    Loaded loaded(base, Compute::kF32);
    loaded.add(1, peft);
    loaded.add(2, gguf);
    const std::vector<float> plain = loaded.run(kTokens, 0);
    EXPECT_GT(distance(plain, wanted), 0.05F * largest(wanted))
        << "an adapter that changes nothing proves nothing";
    for (const AdapterKey key : {1, 2}) {
      EXPECT_LT(distance(loaded.run(kTokens, key), wanted), bound * largest(wanted))
          << base << " with the adapter " << key;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, AdapterFamilies,
                         testing::Values("llama", "qwen3", "qwen3_5_text", "qwen3_next", "qwen3_5_moe_text"),
                         [](const auto& info) { return std::string(info.param); });

class AdapterBatches : public testing::TestWithParam<Compute> {};

TEST_P(AdapterBatches, RowsDependOnTheirOwnAdapterAlone) {
  const Files files("qwen3_5_text");
  const auto one = files.dir.path() / "one";
  const auto two = files.dir.path() / "two";
  TinyAdapter(files.model, {"self_attn", "linear_attn", "mlp"}, 3, 4, 7).write_peft(one);
  TinyAdapter(files.model, {"q_proj", "mlp.down_proj", "lm_head"}, 5, 20, 8).write_peft(two);

  Loaded without(files.folder(), GetParam());
  const std::vector<float> plain = without.run(kTokens, 0);
  for (const unsigned threads : {1U, 2U}) {
    Loaded loaded(files.folder(), GetParam(), threads);
    loaded.add(1, one);
    loaded.add(2, two);
    const std::vector<float> alone[] = {loaded.run(kTokens, 0), loaded.run(kTokens, 1),
                                        loaded.run(kTokens, 2)};
    EXPECT_EQ(alone[0], plain) << "rows without an adapter have the bits of a model without adapters";
    EXPECT_NE(alone[1], plain);
    EXPECT_NE(alone[2], plain);

    // Several sequences per adapter in one batch, in slices of different lengths, then token by token.
    const AdapterKey keys[] = {1, 0, 2, 1, 1, 0, 2};
    std::vector<Sequence> sequences;
    for (std::size_t i = 0; i < std::size(keys); ++i) sequences.push_back(loaded.open());
    std::vector<std::vector<float>> logits(std::size(keys));
    std::vector<std::size_t> done(std::size(keys), 0);
    for (std::size_t round = 0; round < kTokens.size(); ++round) {
      std::vector<Slice> slices;
      std::vector<std::size_t> who;
      for (std::size_t i = 0; i < std::size(keys); ++i) {
        const std::size_t count = std::min(round == 0 ? i + 1 : std::size_t{1}, kTokens.size() - done[i]);
        if (count == 0) continue;
        slices.push_back({.sequence = &sequences[i],
                          .tokens = std::span(kTokens).subspan(done[i], count),
                          .logits = Slice::Logits::kAll,
                          .adapter = keys[i]});
        done[i] += count;
        who.push_back(i);
      }
      const std::span<const float> rows = loaded.model->forward(slices);
      const float* row = rows.data();
      for (std::size_t i = 0; i < who.size(); ++i) {
        const std::size_t count = slices[i].tokens.size() * files.model.o.vocab;
        logits[who[i]].insert(logits[who[i]].end(), row, row + count);
        row += count;
      }
    }
    for (std::size_t i = 0; i < std::size(keys); ++i) {
      EXPECT_EQ(logits[i], alone[keys[i]]) << "sequence " << i << ", " << threads << " threads";
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Both, AdapterBatches, testing::Values(Compute::kF32, Compute::kAuto),
                         [](const auto& info) { return info.param == Compute::kF32 ? "f32" : "fastest"; });

TEST(AdapterModel, LastLogitsOfSomeRowsHaveTheirOwnAdapter) {
  const Files files("llama");
  const auto path = files.dir.path() / "one";
  TinyAdapter(files.model, {"lm_head"}, 2, 4, 3).write_peft(path);
  Loaded loaded(files.folder(), Compute::kF32);
  loaded.add(9, path);
  const std::size_t vocab = files.model.o.vocab;
  const std::vector<float> plain = loaded.run(kTokens, 0);
  const std::vector<float> changed = loaded.run(kTokens, 9);
  Sequence first = loaded.open();
  Sequence second = loaded.open();
  Sequence third = loaded.open();
  const Slice slices[] = {
      {.sequence = &first, .tokens = kTokens, .logits = Slice::Logits::kNone, .adapter = 9},
      {.sequence = &second, .tokens = kTokens, .adapter = 9},
      {.sequence = &third, .tokens = kTokens}};
  const std::span<const float> rows = loaded.model->forward(slices);
  ASSERT_EQ(rows.size(), 2 * vocab);
  EXPECT_TRUE(std::equal(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(vocab),
                         changed.end() - static_cast<std::ptrdiff_t>(vocab)));
  EXPECT_TRUE(std::equal(rows.begin() + static_cast<std::ptrdiff_t>(vocab), rows.end(),
                         plain.end() - static_cast<std::ptrdiff_t>(vocab)));
}

TEST(AdapterModel, ATiedHeadIsChangedWithoutTheEmbedding) {
  const Files files("qwen3", true);
  TinyModel untied = files.model;  // the same values, with an LM head that can be adapted alone
  untied.o.tied = false;
  untied.tensors["lm_head.weight"] = untied.tensors.at("embed_tokens.weight");
  const TinyAdapter adapter(untied, {"lm_head"}, 3, 6, 2);
  adapter.write_peft(files.dir.path() / "peft");
  adapter.write_gguf(files.dir.path() / "adapter.gguf");
  adapter.write_merged(files.dir.path() / "merged");
  const std::vector<float> wanted = Loaded(files.dir.path() / "merged", Compute::kF32).run(kTokens, 0);
  Loaded loaded(files.folder(), Compute::kF32);
  loaded.add(1, files.dir.path() / "peft");
  loaded.add(2, files.dir.path() / "adapter.gguf");
  for (const AdapterKey key : {1, 2}) {
    EXPECT_LT(distance(loaded.run(kTokens, key), wanted), 1e-4F * largest(wanted));
  }
}

TEST(AdapterModel, UnsupportedMatricesAreRefusedByName) {
  const Files files("qwen3_5_moe_text");
  TinyAdapter adapter(files.model, {"q_proj"}, 2, 2, 1);
  const auto change = [&](const std::string& name) {
    TinyAdapter other = adapter;
    other.changes[name] = {{{2, files.model.tensors.at(name).shape[1]},
                            std::vector<float>(2 * files.model.tensors.at(name).shape[1], 0.5F)},
                           {{files.model.tensors.at(name).shape[0], 2},
                            std::vector<float>(2 * files.model.tensors.at(name).shape[0], 0.5F)}};
    other.write_peft(files.dir.path() / "other");
  };
  Loaded loaded(files.folder(), Compute::kF32);
  for (const std::string name : {"layers.1.mlp.experts.2.up_proj", "layers.0.mlp.shared_expert.down_proj"}) {
    change(name + ".weight");
    EXPECT_LOAD_ERROR(loaded.add(1, files.dir.path() / "other"), name);
    EXPECT_LOAD_ERROR(loaded.add(1, files.dir.path() / "other"), "adapting this matrix is not supported");
  }
  adapter.write_peft(files.dir.path() / "good");
  loaded.add(1, files.dir.path() / "good");  // the failed add left no state
  loaded.model->remove_adapter(1);
  loaded.add(1, files.dir.path() / "good");
}

}  // namespace
}  // namespace reprise::models

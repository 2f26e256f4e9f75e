// A made-up family with unusual layers, built from its description. Outputs must match a naive
// implementation; every cut of a sequence is restored bit for bit; tensors, some stacked or fused in the
// files, are found in both formats.

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "models/arch/config_source.h"
#include "models/arch/model_draft.h"
#include "models/arch/model_keys.h"
#include "models/arch/rope_keys.h"
#include "models/cpu/host_model.h"
#include "models/files/json_location.h"
#include "tests/models/arch/naive_layers.h"
#include "tests/models/expect_error.h"
#include "tests/models/files/checkpoint_files.h"
#include "tests/models/files/tensor_values.h"

namespace reprise::models {
namespace {

using test::GgufWriter;
using test::SafetensorsWriter;
using test::TempDir;
using test::Weights;

constexpr std::size_t kWidth = 24;
constexpr std::size_t kInner = 20;
constexpr std::size_t kExpertCount = 2;

// Stores the experts in one tensor, [experts, rows, columns]; Hugging Face's also fuses gate and up.
void stack_experts(ModelConfig& model) {
  for (TensorSpec& tensor : model.tensors) {
    for (std::size_t e = 0; e < kExpertCount; ++e) {
      const std::string prefix = "layers.3.experts." + std::to_string(e) + ".";
      const auto stack = [&](const char* name, const char* gguf, const char* hf, std::size_t hf_rows,
                             std::size_t hf_first) {
        if (tensor.name != prefix + name + ".weight") return;
        const auto rows = static_cast<std::size_t>(tensor.shape[0]);
        const std::uint64_t columns = tensor.shape[1];
        tensor.gguf = {.names = {std::string("blk.3.") + gguf},
                       .piece = TensorPiece{.of = {kExpertCount, rows, columns}, .first_row = e * rows}};
        tensor.hf = {.names = {std::string("layers.3.experts.") + hf},
                     .piece = TensorPiece{.of = {kExpertCount, hf_rows, columns},
                                          .first_row = e * hf_rows + hf_first}};
      };
      stack("gate_proj", "ffn_gate_exps.weight", "gate_up_proj", 2 * kInner, 0);
      stack("up_proj", "ffn_up_exps.weight", "gate_up_proj", 2 * kInner, kInner);
      stack("down_proj", "ffn_down_exps.weight", "down_proj", kWidth, 0);
    }
  }
}

ModelConfig read_made_up(const ConfigSource& source) {
  ModelConfig sizes = read_model_sizes(source);
  const auto rope = read_rope(source, {.head_dim = 12, .context_length = sizes.context_length});
  const auto other_rope = read_rope(source, {.head_dim = 8, .context_length = sizes.context_length});
  const NormKind norm{.offset = 0, .eps = 1e-5F};
  const AttentionSpec still{
      .hidden = kWidth, .heads = 4, .kv_heads = 2, .head_dim = 8, .head_norm = norm};  // no rope
  const AttentionSpec turning{.hidden = kWidth, .heads = 2, .kv_heads = 1, .head_dim = 12, .rope = rope};
  const AttentionSpec other{.hidden = kWidth, .heads = 3, .kv_heads = 3, .head_dim = 8, .rope = other_rope};
  const GatedDeltaNetSpec net{.hidden = kWidth,
                              .key_heads = 2,
                              .value_heads = 4,
                              .key_head_dim = 6,
                              .value_head_dim = 8,
                              .conv_kernel = 3,
                              .norm = norm};
  // The last group of channels is partial, and all optional tensors exist.
  const SelectiveScanSpec scan{.hidden = kWidth,
                               .inner = 29,
                               .state_size = 5,
                               .step_rank = 3,
                               .conv_kernel = 4,
                               .conv_bias = false,
                               .in_bias = true,
                               .out_bias = true,
                               .norms = ScanNorms::kWeightless,
                               .norm = norm};
  SelectiveScanSpec normed_scan = scan;
  normed_scan.conv_bias = true;
  normed_scan.norms = ScanNorms::kWeighted;
  SelectiveScanSpec plain_scan = scan;
  plain_scan.in_bias = plain_scan.out_bias = false;
  plain_scan.norms = ScanNorms::kNone;
  const KdaSpec kda{.hidden = kWidth, .heads = 3, .head_dim = 8, .conv_kernel = 3, .norm = norm};
  // Odd sizes, no query latent, no rope.
  const MlaSpec latent{.hidden = kWidth,
                       .heads = 5,
                       .plain_dim = 7,
                       .rotary_dim = 3,
                       .value_dim = 6,
                       .rank = 13,
                       .norm = norm,
                       .score_scale = 0.4F};
  MlaSpec turning_latent = latent;
  turning_latent.rotary_dim = 8;
  turning_latent.q_rank = 9;
  turning_latent.bias = true;
  turning_latent.latent_scale = 1.5F;
  turning_latent.rope = other_rope;
  MlaSpec other_latent = turning_latent;
  other_latent.bias = false;
  other_latent.rope_of_neighbors = true;
  const GatedDeltaNetInGguf in_order{.tiled_value_heads = false};
  const SwiGluSpec expert{.hidden = kWidth, .intermediate = kInner};
  // Windows shorter and longer than a page.
  AttentionSpec narrow{
      .hidden = kWidth, .heads = 6, .kv_heads = 1, .head_dim = 8, .output_bias = true, .window = 20};
  AttentionSpec wide{.hidden = kWidth, .heads = 2, .kv_heads = 2, .head_dim = 12, .window = 70, .rope = rope};
  const RgLruSpec lru{.hidden = kWidth, .width = 20, .heads = 2, .conv_kernel = 4};
  TimeMixSpec time_mix{.hidden = kWidth,
                       .head_dim = 8,
                       .decay_rank = 3,
                       .rate_rank = 4,
                       .value_rank = 5,
                       .gate_rank = 6,
                       .is_first = true};
  TimeMixSpec later_mix = time_mix;
  later_mix.is_first = false;
  const ChannelMixSpec channel_mix{.hidden = kWidth, .intermediate = 21};
  SwiGluSpec gelu = expert;
  gelu.activation = Activation::kGelu;

  ModelDraft draft(std::move(sizes), norm);
  // Two parallel mixers, a norm after them, a multiplier; no feed-forward part.
  draft.add_layer({{{.norm = draft.norm("first_norm", "attn_norm"),
                     .parts = {draft.part("attn", still), draft.part("net", net, in_order)},
                     .norm_after = draft.norm("last_norm", "post_norm"),
                     .multiplier = 0.5F}}});
  // Two mixers in sequence.
  draft.add_layer(
      {{{.norm = draft.norm("first_norm", "attn_norm"), .parts = {draft.part("attn", turning)}},
        {.norm = draft.norm("second_norm", "net_norm"), .parts = {draft.part("net", net, in_order)}}}});
  // Another rope; the feed-forward part is parallel to the mixer.
  draft.add_layer({{{.norm = draft.norm("first_norm", "attn_norm"),
                     .parts = {draft.part("attn", other), draft.part("mlp", gelu)}}}});
  // Only feed-forward parts, which read the residual without a norm.
  draft.add_layer({{{.parts = {draft.part("experts.0", expert), draft.part("experts.1", expert)},
                     .norm_after = draft.norm("last_norm", "post_norm")}}});
  // Scans, parallel to other parts and alone.
  draft.add_layer({{{.norm = draft.norm("first_norm", "attn_norm"),
                     .parts = {draft.part("mlp", gelu), draft.part("scan", scan)}}}});
  draft.add_layer(
      {{{.norm = draft.norm("first_norm", "attn_norm"), .parts = {draft.part("scan", normed_scan)}}}});
  draft.add_layer(
      {{{.norm = draft.norm("first_norm", "attn_norm"), .parts = {draft.part("scan", plain_scan)}}}});
  // Latent attention; a part whose output is added late, with a step between.
  draft.add_layer({{{.norm = draft.norm("first_norm", "attn_norm"),
                     .parts = {draft.part("latent", latent)},
                     .late_parts = {draft.part("net", net, in_order)}},
                    {.norm = draft.norm("second_norm", "ffn_norm"), .parts = {draft.part("mlp", expert)}}}});
  draft.add_layer({{{.norm = draft.norm("first_norm", "attn_norm"), .parts = {draft.part("kda", kda)}}}});
  draft.add_layer(
      {{{.norm = draft.norm("first_norm", "attn_norm"), .parts = {draft.part("latent", turning_latent)}}}});
  draft.add_layer(
      {{{.norm = draft.norm("first_norm", "attn_norm"), .parts = {draft.part("latent", other_latent)}}}});
  draft.add_layer({{{.norm = draft.norm("first_norm", "attn_norm"), .parts = {draft.part("attn", narrow)}},
                    {.norm = draft.norm("second_norm", "lru_norm"), .parts = {draft.part("lru", lru)}}}});
  // Multipliers keep rounding small: the time mix has large derivatives for small rows.
  draft.add_layer({{{.norm = draft.norm("first_norm", "attn_norm"),
                     .parts = {draft.part("mix", time_mix)},
                     .multiplier = 0.5F},
                    {.norm = draft.norm("second_norm", "channel_norm"),
                     .parts = {draft.part("channels", channel_mix)},
                     .multiplier = 0.5F}}});
  draft.add_layer({{{.norm = draft.norm("first_norm", "attn_norm"), .parts = {draft.part("attn", wide)}},
                    {.norm = draft.norm("second_norm", "mix_norm"),
                     .parts = {draft.part("mix", later_mix)},
                     .multiplier = 0.5F}}});
  ModelConfig model = draft.finish();
  model.embedding_multiplier = 1.25F;
  model.logit_multiplier = 0.75F;
  model.logit_cap = 1.5F;
  stack_experts(model);
  return model;
}

const Family kMadeUp[] = {
    {.name = "made_up", .hf_types = {"made_up"}, .gguf_names = {"made-up"}, .read = read_made_up}};

constexpr const char* kConfig =
    R"({"model_type": "made_up", "hidden_size": 24, "vocab_size": 13, "max_position_embeddings": 512,
        "rope_theta": 100.0})";

struct Stored {
  Shape shape;
  std::vector<float> values;
};

class DescribedLayers : public testing::Test {
 protected:
  DescribedLayers()
      : config_(ModelConfig::from_hf(JsonLocation::parse(kConfig, "config.json"), nullptr, kMadeUp)) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0, 0.4F);
    for (const TensorSpec& tensor : config_.tensors) {
      std::vector<float>& values = weights_[tensor.name];
      values.resize(element_count(tensor.shape).value());
      for (float& value : values) value = normal(random) + (tensor.name.ends_with("norm.weight") ? 1 : 0);
    }
  }

  // Whole tensors and slices as stored in a file.
  std::map<std::string, Stored> stored(StoredAs TensorSpec::*format) const {
    std::map<std::string, Stored> out;
    for (const TensorSpec& tensor : config_.tensors) {
      const StoredAs& stored_as = tensor.*format;
      const std::string name = stored_as.names.empty() ? tensor.name : stored_as.names.front();
      const std::vector<float>& values = weights_.at(tensor.name);
      if (!stored_as.piece) {
        out[name] = {tensor.shape, values};
        continue;
      }
      Stored& whole = out[name];
      whole.shape = stored_as.piece->of;
      whole.values.resize(element_count(whole.shape).value());
      std::copy(values.begin(), values.end(),
                whole.values.begin() +
                    static_cast<std::ptrdiff_t>(stored_as.piece->first_row * whole.shape.back()));
    }
    return out;
  }

  ModelFiles open_hf() const {
    SafetensorsWriter writer;
    for (const auto& [name, tensor] : stored(&TensorSpec::hf)) {
      writer.tensor((name == "lm_head.weight" ? "" : "model.") + name, "F32", tensor.shape,
                    test::raw_f32(tensor.values));
    }
    dir_.write("config.json", kConfig);
    dir_.write("model.safetensors", writer.bytes());
    return ModelFiles::open(dir_.path(), kMadeUp);
  }

  ModelFiles open_gguf() const {
    GgufWriter writer;
    writer.text("general.architecture", "made-up");
    writer.u32("made-up.embedding_length", kWidth);
    writer.u32("made-up.context_length", 512);
    writer.f32("made-up.rope.freq_base", 100);
    for (auto [name, tensor] : stored(&TensorSpec::gguf)) {
      if (name.ends_with("ssm_a")) {
        for (float& value : tensor.values) value = -std::exp(value);
      }
      writer.tensor(name, 0, tensor.shape, test::raw_f32(tensor.values));
    }
    return ModelFiles::open(dir_.write("m.gguf", writer.bytes()), kMadeUp);
  }

  static std::vector<TokenId> tokens(std::size_t count) {
    std::vector<TokenId> out(count);
    for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<TokenId>(i * i * 7 % 13);
    return out;
  }

  TempDir dir_;
  ModelConfig config_;
  Weights weights_;
};

TEST_F(DescribedLayers, ComputeWhatANaiveComputationGives) {
  gpu::Threads threads(2);
  for (const gpu::Isa isa : {gpu::Isa::kPlain, gpu::best_isa()}) {
    cpu::HostModel model(open_hf(), {.compute = gpu::Compute::kF32, .kv = gpu::KvType::kF32, .isa = isa},
                         threads, threads);
    gpu::StateStore store(model.state().sizes(), {.pages = 2, .slots = 1});
    std::optional<gpu::Sequence> sequence = store.open();
    const std::vector<TokenId> prompt = tokens(80);
    ASSERT_TRUE(sequence && sequence->reserve(prompt.size()));
    const Slice slice{.sequence = &*sequence, .tokens = prompt, .logits = Slice::Logits::kAll};
    const std::span<const float> logits = model.forward({&slice, 1}, Phase::kPrefill);
    const test::Rows expected = test::NaiveModel(config_, weights_).run(prompt);
    double largest = 0;
    double difference = 0;  // root mean square error
    for (std::size_t t = 0; t < prompt.size(); ++t) {
      for (std::size_t i = 0; i < config_.vocab; ++i) {
        largest = std::max(largest, std::abs(expected[t][i]));
        const double error = logits[t * config_.vocab + i] - expected[t][i];
        difference += error * error / static_cast<double>(prompt.size() * config_.vocab);
        EXPECT_LT(std::abs(error), 5e-4) << "token " << t;  // later layers magnify rounding in the first ones
      }
    }
    EXPECT_GT(largest, 1);
    // Typically 2e-5; the last bits of the weights, and so the error, depend on how the test was compiled.
    EXPECT_LT(std::sqrt(difference), 4e-5 * largest);
  }
}

TEST_F(DescribedLayers, DecodedTokensHaveTheBitsOfPrefill) {
  gpu::Threads threads(1);
  cpu::HostModel model(open_hf(), {}, threads, threads);
  gpu::StateStore store(model.state().sizes(), {.pages = 4, .slots = 2});
  const std::vector<TokenId> prompt = tokens(80);
  std::optional<gpu::Sequence> prefilled = store.open();
  std::optional<gpu::Sequence> decoded = store.open();
  ASSERT_TRUE(prefilled && prefilled->reserve(prompt.size()) && decoded && decoded->reserve(prompt.size()));
  const Slice whole{.sequence = &*prefilled, .tokens = prompt, .logits = Slice::Logits::kAll};
  const std::span<const float> rows = model.forward({&whole, 1}, Phase::kPrefill);
  const std::vector<float> cold(rows.begin(), rows.end());
  for (std::size_t t = 0; t < prompt.size(); ++t) {
    const Slice slice{.sequence = &*decoded, .tokens = std::span(prompt).subspan(t, 1)};
    const std::span<const float> logits = model.forward({&slice, 1}, Phase::kDecode);
    ASSERT_EQ(std::memcmp(logits.data(), cold.data() + t * config_.vocab, config_.vocab * sizeof(float)), 0)
        << "token " << t;
  }
}

TEST_F(DescribedLayers, EveryCutIsRestoredToTheBit) {
  gpu::Threads threads(2);
  cpu::HostModel model(open_hf(), {}, threads, threads);
  // Per token: K and V of three attentions, latents of three more. Per sequence: convolution and matrices of
  // three GatedDeltaNets and a KDA, convolution and state of three scans and an RG-LRU, two rings, rows and
  // matrices of two time mixes, rows of a channel mix.
  EXPECT_EQ(model.state().per_token().size(), 9u);
  EXPECT_EQ(model.state().per_sequence().size(), 23u);
  gpu::StateStore store(model.state().sizes(), {.pages = 16, .slots = 8});
  const std::vector<TokenId> prompt = tokens(80);
  const auto run = [&](gpu::Sequence& sequence, std::size_t begin, std::size_t end) {
    const Slice slice{.sequence = &sequence,
                      .tokens = std::span(prompt).subspan(begin, end - begin),
                      .logits = Slice::Logits::kAll};
    const std::span<const float> logits = model.forward({&slice, 1}, Phase::kPrefill);
    return std::vector<float>(logits.begin(), logits.end());
  };
  const auto open = [&] {
    std::optional<gpu::Sequence> sequence = store.open();
    EXPECT_TRUE(sequence && sequence->reserve(prompt.size()));
    return std::move(*sequence);
  };
  std::vector<float> cold;
  {
    gpu::Sequence sequence = open();
    cold = run(sequence, 0, prompt.size());
  }
  for (std::size_t cut = 1; cut < prompt.size(); ++cut) {
    gpu::Sequence sequence = open();
    std::vector<float> warm = run(sequence, 0, cut);
    const std::optional<gpu::Snapshot> snapshot = store.capture(sequence);
    ASSERT_TRUE(snapshot.has_value());
    std::optional<gpu::Sequence> restored = store.restore(*snapshot).sequence;
    ASSERT_TRUE(restored && restored->reserve(prompt.size() - cut));
    const std::vector<float> rest = run(*restored, cut, prompt.size());
    warm.insert(warm.end(), rest.begin(), rest.end());
    ASSERT_EQ(warm.size(), cold.size());
    ASSERT_EQ(std::memcmp(warm.data(), cold.data(), cold.size() * sizeof(float)), 0) << "cut at " << cut;
  }
}

TEST_F(DescribedLayers, StackedAndFusedTensorsAreSplitInBothFormats) {
  const ModelFiles hf = open_hf();
  const ModelFiles gguf = open_gguf();
  EXPECT_EQ(hf.names(), gguf.names());
  EXPECT_EQ(hf.total_bytes(), gguf.total_bytes());
  hf.validate();
  gguf.validate();
  for (const TensorSpec& spec : config_.tensors) {
    const Tensor a = hf.tensor(spec.name);
    const Tensor b = gguf.tensor(spec.name);
    EXPECT_EQ(a.shape, spec.shape) << spec.name;
    EXPECT_EQ(test::values(a), weights_.at(spec.name)) << spec.name;
    EXPECT_EQ(a.owned, nullptr) << spec.name;
    if (spec.name.ends_with("A_log")) continue;  // only nearly equal: GGUF stores the exponential
    EXPECT_EQ(test::values(b), weights_.at(spec.name)) << spec.name;
    EXPECT_EQ(b.owned, nullptr) << spec.name;
  }
  EXPECT_EQ(hf.stored_type("layers.3.experts.1.up_proj.weight"), DType::kF32);
}

TEST_F(DescribedLayers, AStackOfAnotherShapeIsRefused) {
  SafetensorsWriter writer;
  for (auto [name, tensor] : stored(&TensorSpec::hf)) {
    if (name == "layers.3.experts.down_proj") std::swap(tensor.shape[0], tensor.shape[1]);
    writer.tensor((name == "lm_head.weight" ? "" : "model.") + name, "F32", tensor.shape,
                  test::raw_f32(tensor.values));
  }
  dir_.write("config.json", kConfig);
  dir_.write("model.safetensors", writer.bytes());
  EXPECT_LOAD_ERROR(ModelFiles::open(dir_.path(), kMadeUp),
                    "model.layers.3.experts.down_proj: expected shape [2, 24, 20], found [24, 2, 20]");
  EXPECT_LOAD_ERROR(ModelFiles::open(dir_.path()), "unknown architecture 'made_up'");
}

}  // namespace
}  // namespace reprise::models

#include "models/model_files.h"

#include "models/files/gguf_layout.h"
#include "tests/models/expect_error.h"
#include "tests/models/files/tensor_values.h"
#include "tests/models/tiny_model.h"

namespace reprise::models {
namespace {

using test::GgufWriter;
using test::raw;
using test::SafetensorsWriter;
using test::TempDir;
using test::TinyModel;
using test::TinyOptions;
using test::TinyTensor;
using test::values;

void expect_model(const ModelFiles& files, const TinyModel& model) {
  EXPECT_EQ(files.names().size(), model.tensors.size());
  for (const auto& [name, expected] : model.tensors) {
    ASSERT_TRUE(files.has(name)) << name;
    const Tensor tensor = files.tensor(name);
    EXPECT_EQ(tensor.shape, expected.shape) << name;
    EXPECT_EQ(files.shape(name), expected.shape) << name;
    const std::vector<float> found = values(tensor);
    EXPECT_EQ(found, expected.values) << name;
  }
}

class CheckpointTest : public testing::Test {
 protected:
  ModelFiles open_hf(const TinyModel& model, const std::string& prefix = "model.") {
    return open_hf(model.config_json(), model.safetensors(prefix));
  }
  ModelFiles open_hf(const std::string& config, const SafetensorsWriter& tensors) {
    dir_.write("config.json", config);
    dir_.write("model.safetensors", tensors.bytes());
    return ModelFiles::open(dir_.path());
  }
  ModelFiles open_gguf(const GgufWriter& writer) {
    return ModelFiles::open(dir_.write("m.gguf", writer.bytes()));
  }

  TempDir dir_;
};

std::vector<TinyOptions> all_kinds() {
  return {
      {.type = "qwen3_5_text"},
      {.type = "qwen3_5_text", .key_heads = 4, .value_heads = 4},  // no reorder
      {.type = "qwen3_5_text", .key_heads = 2, .value_heads = 6, .key_dim = 3, .value_dim = 5, .kernel = 4},
      {.type = "qwen3_5_text", .key_heads = 1, .value_heads = 3, .tied = true},
      {.type = "qwen3_5_text",
       .layers = 5,
       .attention_bias = true,
       .linear = {false, true, true, false, true}},
      {.type = "qwen3"},
      {.type = "qwen3", .heads = 6, .kv_heads = 6, .tied = true, .attention_bias = true},
      {.type = "llama"},
      {.type = "llama", .heads = 8, .kv_heads = 2, .head_dim = 6, .tied = true},
      {.type = "llama", .kv_heads = 1, .attention_bias = true, .mlp_bias = true},
      {.type = "qwen3_5_moe_text"},
      {.type = "qwen3_5_moe_text", .value_heads = 6, .tied = true, .stacked = true},
      {.type = "qwen3_5_moe_text", .experts = 1, .chosen = 1, .shared_size = 0},
      {.type = "qwen3_next"},
      {.type = "qwen3_next", .key_heads = 3, .value_heads = 3, .key_dim = 3, .value_dim = 5, .stacked = true},
      {.type = "qwen3_next",
       .key_heads = 2,
       .value_heads = 6,
       .key_dim = 3,
       .value_dim = 5,
       .tied = true,
       .experts = 7,
       .chosen = 7,
       .sparse = {false, true, false, true}},
      {.type = "qwen3_next", .shared_size = 0, .sparse = {false, false, false, false}},
  };
}

TEST_F(CheckpointTest, ReadsHuggingFaceFolders) {
  for (const TinyOptions& options : all_kinds()) {
    const TinyModel model(options);
    for (const char* prefix : {"model.", "", "model.language_model.", "language_model.model."}) {
      const ModelFiles files = open_hf(model, prefix);
      expect_model(files, model);
      EXPECT_EQ(files.gguf(), nullptr);
      EXPECT_EQ(files.tensor("norm.weight").owned, nullptr);
      if (options.tied) {
        EXPECT_EQ(values(files.tensor(files.config().head + ".weight")),
                  model.tensors.at("embed_tokens.weight").values);
      }
    }
  }
}

TEST_F(CheckpointTest, UndoesWhatTheGgufConverterDid) {
  for (const TinyOptions& options : all_kinds()) {
    const TinyModel model(options, 7);
    for (const bool bf16 : {false, true}) expect_model(open_gguf(model.gguf(bf16)), model);
  }
}

TEST_F(CheckpointTest, CopiesOnlyWhatItMustChange) {
  const ModelFiles files = open_gguf(TinyModel({.type = "qwen3_5_text"}).gguf(true));
  const Tensor up = files.tensor("layers.0.mlp.up_proj.weight");
  EXPECT_EQ(up.owned, nullptr);
  EXPECT_EQ(up.type, DType::kBF16);
  const Tensor z = files.tensor("layers.0.linear_attn.in_proj_z.weight");
  EXPECT_NE(z.owned, nullptr);
  EXPECT_EQ(z.type, DType::kBF16);
  EXPECT_EQ(files.tensor("layers.0.input_layernorm.weight").type, DType::kF32);
  EXPECT_EQ(files.tensor("layers.0.linear_attn.norm.weight").owned, nullptr);
  EXPECT_NE(files.gguf(), nullptr);
}

TEST_F(CheckpointTest, IgnoresVisionAndPrediction) {
  const TinyModel model({.type = "qwen3_5"});
  SafetensorsWriter tensors = model.safetensors("model.language_model.");
  tensors.tensor("model.visual.blocks.0.attn.qkv.weight", "BF16", {1}, "xx");
  tensors.tensor("mtp.layers.0.mlp.up_proj.weight", "BF16", {1}, "xx");
  tensors.tensor("model.language_model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {1}, "xxxx");
  expect_model(open_hf(model.config_json(), tensors), model);

  GgufWriter w = model.gguf();
  w.tensor("v.blk.0.attn_q.weight", 0, {1}, "1234");
  w.tensor("mtp.fc.weight", 0, {1}, "1234");
  w.tensor("blk.4.nextn.eh_proj.weight", 0, {1}, "1234");
  expect_model(open_gguf(w), model);
}

TEST_F(CheckpointTest, RefusesUnknownWeightsInALayer) {
  const TinyModel model({.type = "llama"});
  SafetensorsWriter tensors = model.safetensors();
  tensors.tensor("model.layers.2.self_attn.q_proj.bias", "BF16", {1}, "xx");
  EXPECT_LOAD_ERROR(open_hf(model.config_json(), tensors),
                    "model.layers.2.self_attn.q_proj.bias: this architecture has no such tensor");
  GgufWriter w = model.gguf();
  w.tensor("blk.1.attn_sinks.weight", 0, {1}, "1234");
  EXPECT_LOAD_ERROR(open_gguf(w), "blk.1.attn_sinks.weight: this architecture has no such tensor");
}

TEST_F(CheckpointTest, NamesMissingTensorsAndWrongShapes) {
  const TinyModel model({.type = "qwen3"});
  TinyModel less = model;
  less.tensors.erase("layers.1.mlp.down_proj.weight");
  EXPECT_LOAD_ERROR(open_hf(less), "model.layers.1.mlp.down_proj.weight: is missing");
  EXPECT_LOAD_ERROR(open_gguf(less.gguf()), "m.gguf: blk.1.ffn_down.weight: is missing");
  TinyModel headless = model;
  headless.tensors.erase("lm_head.weight");
  EXPECT_LOAD_ERROR(open_hf(headless), "lm_head.weight: is missing");
  TinyModel bare = model;
  bare.tensors.clear();
  EXPECT_LOAD_ERROR(open_hf(bare), "embed_tokens.weight: is missing");

  TinyModel turned = model;
  TinyTensor& down = turned.tensors.at("layers.1.mlp.down_proj.weight");
  std::swap(down.shape[0], down.shape[1]);
  EXPECT_LOAD_ERROR(
      open_hf(turned),
      "model.safetensors: model.layers.1.mlp.down_proj.weight: expected shape [8, 6], found [6, 8]");
  EXPECT_LOAD_ERROR(open_gguf(turned.gguf()), "blk.1.ffn_down.weight: expected shape [8, 6], found [6, 8]");
  EXPECT_LOAD_ERROR(open_hf(model).tensor("nothing"), "nothing: the model has no such tensor");
}

TEST_F(CheckpointTest, RefusesTypesWhenTheyAreAskedFor) {
  TinyModel model({.type = "qwen3", .intermediate = 32});
  const TinyTensor down = model.tensors.at("layers.0.mlp.down_proj.weight");
  model.tensors.erase("layers.0.mlp.down_proj.weight");
  GgufWriter w = model.gguf();
  w.tensor("blk.0.ffn_down.weight", 9, down.shape, std::string(8 * 36, 'q'));
  const ModelFiles files = open_gguf(w);
  EXPECT_EQ(files.stored_type("layers.0.mlp.down_proj.weight"), DType::kQ8_1);
  EXPECT_NO_THROW(files.tensor("layers.0.mlp.up_proj.weight"));
  EXPECT_LOAD_ERROR(files.tensor("layers.0.mlp.down_proj.weight"),
                    "m.gguf: blk.0.ffn_down.weight: the type Q8_1 cannot be computed with");
  EXPECT_NO_THROW(files.validate());

  SafetensorsWriter tensors = model.safetensors();
  tensors.tensor("model.layers.0.mlp.down_proj.weight", "F8_E4M3", down.shape, std::string(8 * 32, 'q'));
  const ModelFiles fp8 = open_hf(model.config_json(), tensors);
  EXPECT_LOAD_ERROR(fp8.tensor("layers.0.mlp.down_proj.weight"), "the type F8_E4M3 cannot be computed with");
}

TEST_F(CheckpointTest, AcceptsOtherConverters) {
  TinyModel model({.type = "qwen3_5_text"});
  const TinyTensor bias = model.tensors.at("layers.0.linear_attn.dt_bias");
  TinyModel without = model;
  without.tensors.erase("layers.0.linear_attn.dt_bias");
  GgufWriter w = without.gguf();
  w.tensor("blk.0.ssm_dt", 0, {4},
           test::raw_f32({bias.values[0], bias.values[2], bias.values[1], bias.values[3]}));
  expect_model(open_gguf(w), model);

  GgufWriter grouped = model.gguf();
  grouped.boolean("qwen35.ssm.v_head_reordered", false);
  const ModelFiles files = open_gguf(grouped);
  EXPECT_EQ(files.tensor("layers.0.linear_attn.dt_bias").owned, nullptr);
}

TEST_F(CheckpointTest, CopiesTensorsThatAreNotAligned) {
  const TinyModel model({.type = "llama"});
  SafetensorsWriter tensors;
  tensors.tensor("odd", "U8", {1}, "x");
  for (const auto& [name, tensor] : model.tensors) {
    tensors.tensor(name == "lm_head.weight" ? name : "model." + name, "BF16", tensor.shape,
                   test::raw_bf16(tensor.values));
  }
  const ModelFiles files = open_hf(model.config_json(), tensors);
  expect_model(files, model);
  EXPECT_NE(files.tensor("norm.weight").owned, nullptr);
}

TEST_F(CheckpointTest, ValidatesWithProgress) {
  TinyModel model({.type = "qwen3_5_text"});
  const ModelFiles files = open_hf(model);
  std::uint64_t last = 0;
  files.validate([&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, files.total_bytes());
    last = done;
  });
  EXPECT_EQ(last, files.total_bytes());

  model.tensors.at("layers.1.mlp.up_proj.weight").values[7] = INFINITY;
  EXPECT_LOAD_ERROR(open_hf(model).validate(),
                    "model.layers.1.mlp.up_proj.weight: has a weight that is infinite");
  EXPECT_LOAD_ERROR(open_gguf(model.gguf()).validate(), "blk.1.ffn_up.weight: has a weight that is infinite");
}

TEST_F(CheckpointTest, NoticesAFileThatShrinks) {
  const TinyModel model({.type = "llama"});
  const ModelFiles files = open_hf(model);
  std::filesystem::resize_file(dir_.path() / "model.safetensors", 100);
  EXPECT_LOAD_ERROR(files.tensor("norm.weight"), "model.safetensors: has shrunk");
  EXPECT_LOAD_ERROR(files.validate(), "model.safetensors: has shrunk");
}

TEST_F(CheckpointTest, SurvivesBeingMoved) {
  const TinyModel model({.type = "llama"});
  ModelFiles first = open_gguf(model.gguf());
  const Tensor view = first.tensor("norm.weight");
  const ModelFiles second = std::move(first);
  expect_model(second, model);
  EXPECT_EQ(view.bytes.data(), second.tensor("norm.weight").bytes.data());
}

TEST_F(CheckpointTest, NamesTheFileThatIsMissing) {
  EXPECT_LOAD_ERROR(ModelFiles::open(dir_.path() / "nothing"), "nothing: cannot be opened");
  EXPECT_LOAD_ERROR(ModelFiles::open(dir_.path()), "config.json: cannot be opened");
  dir_.write("config.json", TinyModel({.type = "llama"}).config_json());
  EXPECT_LOAD_ERROR(ModelFiles::open(dir_.path()), "has neither model.safetensors nor");
  EXPECT_LOAD_ERROR(ModelFiles::open(dir_.path() / "config.json"), "is not a GGUF file");
}

TEST(GgufLayout, MovesWholeBlocks) {
  GgufLayout layout;
  layout.axis = GgufLayout::Axis::kColumns;
  layout.outer = 2;
  layout.inner = 2;
  layout.unit = 32;
  std::string bytes;
  for (char c : {'a', 'b', 'c', 'd'}) bytes += std::string(34, c);
  const auto undone = undo(layout, DType::kQ8_0, {1, 128}, std::as_bytes(std::span(bytes)));
  EXPECT_EQ(static_cast<char>(undone.data[0]), 'a');
  EXPECT_EQ(static_cast<char>(undone.data[34]), 'c');
  EXPECT_EQ(static_cast<char>(undone.data[68]), 'b');
  EXPECT_THROW(undo(layout, DType::kQ4_K, {1, 128}, std::as_bytes(std::span(bytes))), std::invalid_argument);
  layout.unit = 16;
  EXPECT_THROW(undo(layout, DType::kF32, {1, 128}, std::as_bytes(std::span(bytes))), std::invalid_argument);
}

TEST(GgufLayout, FindsEverySixteenBitDecay) {
  GgufLayout layout;
  layout.values = GgufLayout::Values::kNegativeExp;
  std::size_t tried = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float a = widen_bf16(static_cast<std::uint16_t>(bits));
    if (!(std::abs(a) < 80) || std::abs(a) < 1e-5f) continue;  // exp(a) is too imprecise below
    // Another library's exp() may differ by one ulp.
    const float exact = -std::exp(a);
    for (const float stored : {exact, std::nextafter(exact, 0.0f), std::nextafter(exact, -INFINITY)}) {
      const auto undone = undo(layout, DType::kF32, {1}, std::as_bytes(std::span(&stored, 1)));
      float found;
      std::memcpy(&found, undone.data.get(), 4);
      if (std::abs(a) > 0.01f) {
        ASSERT_EQ(found, a) << bits;
        ++tried;
      } else {
        ASSERT_NEAR(found, a, 3e-7f);
      }
    }
  }
  EXPECT_GT(tried, 9000u);
  const float positive = 1.0f;
  EXPECT_THROW(undo(layout, DType::kF32, {1}, std::as_bytes(std::span(&positive, 1))), std::invalid_argument);
}

TEST(GgufLayout, WidensSixteenBitNumbers) {
  EXPECT_EQ(widen_f16(0x3c00), 1.0f);
  EXPECT_EQ(widen_f16(0xc000), -2.0f);
  EXPECT_EQ(widen_f16(0x0001), 5.9604645e-8f);
  EXPECT_EQ(widen_f16(0x7bff), 65504.0f);
  EXPECT_EQ(widen_f16(0xfc00), -INFINITY);
  EXPECT_TRUE(std::isnan(widen_f16(0x7e00)));
  EXPECT_EQ(widen_f16(0x8000), 0.0f);
  EXPECT_EQ(widen_bf16(0x3f80), 1.0f);
}

}  // namespace
}  // namespace reprise::models

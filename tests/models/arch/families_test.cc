// The table of families: their names, and the description each gives of one model in two formats.

#include "models/arch/families.h"

#include <set>

#include "models/files/json_location.h"
#include "models/model_files.h"
#include "tests/models/expect_error.h"
#include "tests/models/tiny_model.h"

namespace reprise::models {
namespace {

using test::GgufWriter;
using test::TempDir;
using test::TinyModel;

TEST(Families, NamesAreUniqueAndRowsComplete) {
  std::set<std::string_view> names;
  std::set<std::string_view> types;
  std::set<std::string_view> architectures;
  for (const Family& family : families()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_FALSE(family.hf_types.empty() && family.gguf_names.empty()) << family.name;
    EXPECT_NE(family.read, nullptr) << family.name;
    for (const auto* list : {&family.hf_types, &family.hf_wrapper_types}) {
      for (const std::string_view type : *list) EXPECT_TRUE(types.insert(type).second) << type;
    }
    for (const std::string_view name : family.gguf_names) {
      EXPECT_TRUE(architectures.insert(name).second) << name;
    }
  }
  EXPECT_FALSE(names.empty());
}

TEST(Families, UnknownOnesAreRefusedWithTheListOfTheKnown) {
  const JsonLocation config = JsonLocation::parse(R"({"model_type": "gpt2"})", "config.json");
  EXPECT_LOAD_ERROR(ModelConfig::from_hf(config, nullptr, families().first(3)),
                    "unknown architecture 'gpt2'; known are llama, qwen3, qwen3_5, qwen3_5_text");
  EXPECT_LOAD_ERROR(ModelConfig::from_hf(config, nullptr, families().first(1)),
                    "unknown architecture 'gpt2'; known are llama");
  GgufWriter w;
  w.text("general.architecture", "gpt2");
  const TempDir dir;
  const Gguf file = Gguf::open(dir.write("m.gguf", w.bytes()));
  EXPECT_LOAD_ERROR(ModelConfig::from_gguf(file, families().first(3)),
                    "unknown architecture 'gpt2'; known are llama, qwen3, qwen35");
}

class TinyFamily : public testing::TestWithParam<std::string> {};

TEST_P(TinyFamily, DescribesAModelAlikeFromBothFormats) {
  const TempDir dir;
  for (const bool tied : {false, true}) {
    const TinyModel model({.type = GetParam(), .tied = tied, .attention_bias = true, .mlp_bias = !tied});
    const ModelConfig hf = ModelConfig::from_hf(JsonLocation::parse(model.config_json(), "config.json"));
    const ModelConfig gguf = ModelConfig::from_gguf(Gguf::open(dir.write("m.gguf", model.gguf().bytes())));
    EXPECT_EQ(hf.architecture, gguf.architecture);
    EXPECT_EQ(hf.hidden, gguf.hidden);
    EXPECT_EQ(hf.vocab, gguf.vocab);
    EXPECT_EQ(hf.context_length, gguf.context_length);
    EXPECT_EQ(hf.embedding, gguf.embedding);
    EXPECT_EQ(hf.layers, gguf.layers);
    EXPECT_EQ(hf.final_norm, gguf.final_norm);
    EXPECT_EQ(hf.head, gguf.head);
    EXPECT_EQ(hf.tied(), tied);
    ASSERT_EQ(hf.tensors.size(), gguf.tensors.size());
    for (std::size_t i = 0; i < hf.tensors.size(); ++i) {
      EXPECT_EQ(hf.tensors[i].name, gguf.tensors[i].name);
      EXPECT_EQ(hf.tensors[i].shape, gguf.tensors[i].shape);
    }
  }
}

TEST_P(TinyFamily, ListsTensorsOnceInTheOrderOfUse) {
  const TinyModel model({.type = GetParam()});
  const ModelConfig config = ModelConfig::from_hf(JsonLocation::parse(model.config_json(), "config.json"));
  std::set<std::string> names;
  std::set<std::string> gguf_names;
  for (const TensorSpec& tensor : config.tensors) {
    EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
    if (tensor.gguf.piece) continue;  // other tensors are the rest of the stored one
    for (const std::string& name : tensor.gguf.names) EXPECT_TRUE(gguf_names.insert(name).second) << name;
  }
  const auto index_of = [&](const std::string& name) {
    std::size_t i = 0;
    while (i < config.tensors.size() && config.tensors[i].name != name) ++i;
    EXPECT_LT(i, config.tensors.size()) << name;
    return i;
  };
  EXPECT_EQ(index_of(config.embedding + ".weight"), 0u);
  std::size_t last = 0;
  for (const LayerSpec& layer : config.layers) {
    for (const ResidualSpec& step : layer.steps) {
      const std::size_t norm = index_of(step.norm->name + ".weight");
      EXPECT_GT(norm, last);
      const std::string part = std::visit([](const auto& one) { return one.name; }, step.parts.front());
      EXPECT_TRUE(config.tensors[norm + 1].name.starts_with(part + ".")) << part;
      last = norm;
    }
  }
  EXPECT_EQ(index_of(config.final_norm.name + ".weight"), config.tensors.size() - 2);
  EXPECT_EQ(index_of(config.head + ".weight"), config.tensors.size() - 1);
}

INSTANTIATE_TEST_SUITE_P(Types, TinyFamily, testing::ValuesIn(TinyModel::types()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace reprise::models

#include "models/arch/model_keys.h"

#include "models/arch/config_source.h"
#include "models/files/load_error.h"

namespace reprise::models {
namespace {

constexpr Key kHidden{"hidden_size", "embedding_length"};
constexpr Key kVocab{"vocab_size", ""};
constexpr Key kContext{"max_position_embeddings", "context_length"};
constexpr Key kLayers{"num_hidden_layers", "block_count"};
constexpr Key kPredictionLayers{"", "nextn_predict_layers"};
constexpr Key kIntermediate{"intermediate_size", "feed_forward_length"};
constexpr Key kExperts{"", "expert_count"};

std::size_t vocab_of(const GgufSource& gguf) {
  const Gguf& file = gguf.file();
  const StoredTensor* embedding = file.tensors().find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    throw LoadError(file.path(), "token_embd.weight", "is missing or no matrix");
  }
  if (embedding->shape[0] < 1 || embedding->shape[0] > static_cast<std::uint64_t>(kMaxVocabSize)) {
    throw LoadError(file.path(), "token_embd.weight", "has " + std::to_string(embedding->shape[0]) + " rows");
  }
  return embedding->shape[0];
}

bool is_tied(const ConfigSource& source, bool hf_default) {
  if (const GgufSource* gguf = source.gguf()) return gguf->file().tensors().find("output.weight") == nullptr;
  const std::string_view key = "tie_word_embeddings";
  return source.hf()->config().boolean_or(key, source.hf()->text().boolean_or(key, hf_default));
}

}  // namespace

ModelConfig read_model_sizes(const ConfigSource& source, const ModelSizeKeys& keys) {
  ModelConfig out;
  out.embedding = keys.embedding;
  out.hidden = source.count(kHidden, kMaxSize);
  out.vocab = source.gguf() != nullptr ? vocab_of(*source.gguf()) : source.count(kVocab, kMaxVocabSize);
  out.context_length = keys.context ? source.count_or(kContext, kMaxContext, *keys.context)
                                    : source.count(kContext, kMaxContext);
  if (is_tied(source, keys.hf_tied)) out.head = out.embedding;
  return out;
}

std::size_t read_layer_count(const ConfigSource& source) {
  const std::size_t blocks = source.count(kLayers, kMaxLayers);
  if (source.gguf() == nullptr) return blocks;
  const GgufMetadata& metadata = source.gguf()->metadata();
  const std::int64_t prediction = metadata.integer_or(source.gguf()->full(kPredictionLayers), 0);
  if (prediction < 0 || static_cast<std::uint64_t>(prediction) >= blocks) {
    source.fail(kPredictionLayers, "leaves no layers");
  }
  return blocks - static_cast<std::size_t>(prediction);
}

float read_rms_eps(const ConfigSource& source, std::string_view hf_key, double hf_default) {
  const Key key{hf_key, "attention.layer_norm_rms_epsilon"};
  const bool needed = source.gguf() != nullptr;
  const auto eps = static_cast<float>(needed ? source.number(key) : source.number_or(key, hf_default));
  if (!(eps > 0 && eps < 1)) source.fail(key, "must lie between 0 and 1");
  return eps;
}

void require_silu(const ConfigSource& source) {
  if (source.hf() == nullptr) return;
  const auto act = source.hf()->text().find("hidden_act");
  if (act && act->text() != "silu" && act->text() != "swish") {
    act->fail("the activation '" + act->text() + "' is not known; known is silu");
  }
}

void refuse_experts(const ConfigSource& source) {
  const GgufSource* gguf = source.gguf();
  if (gguf != nullptr && gguf->metadata().integer_or(gguf->full(kExperts), 0) != 0) {
    source.fail(kExperts, "experts are not supported in this architecture");
  }
}

SwiGluSpec read_swiglu(const ConfigSource& source, std::size_t hidden) {
  require_silu(source);
  return {.hidden = hidden,
          .intermediate = source.uniform(kIntermediate, kMaxSize),
          .bias = source.has_bias("mlp_bias", "blk.0.ffn_up.bias")};
}

}  // namespace reprise::models

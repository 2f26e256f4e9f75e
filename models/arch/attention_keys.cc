#include "models/arch/attention_keys.h"

#include "models/arch/config_source.h"

namespace reprise::models {
namespace {

constexpr Key kHeads{"num_attention_heads", "attention.head_count"};
constexpr Key kKvHeads{"num_key_value_heads", "attention.head_count_kv"};
constexpr Key kHeadDim{"head_dim", "attention.key_length"};
constexpr Key kValueDim{"", "attention.value_length"};
constexpr Key kHiddenSize{"hidden_size", "embedding_length"};

std::size_t read_head_dim(const ConfigSource& source, const AttentionKeys& keys, std::size_t heads) {
  if (source.has(kHeadDim)) return source.count(kHeadDim, kMaxHeadDim);
  if (source.hf() != nullptr && keys.hf_head_dim) return *keys.hf_head_dim;
  if (keys.hidden % heads != 0) source.fail(kHeads, "does not divide " + source.name(kHiddenSize));
  return keys.hidden / heads;
}

}  // namespace

AttentionSpec read_attention(const ConfigSource& source, const AttentionKeys& keys) {
  if (const HfSource* hf = source.hf(); hf != nullptr && hf->text().boolean_or("use_sliding_window", false)) {
    hf->text().at("use_sliding_window").fail("sliding windows are not supported");
  }
  AttentionSpec out;
  out.hidden = keys.hidden;
  out.heads = source.uniform(kHeads, kMaxHeads);
  out.kv_heads = source.has(kKvHeads) ? source.uniform(kKvHeads, kMaxHeads) : out.heads;
  out.head_dim = read_head_dim(source, keys, out.heads);
  if (source.count_or(kValueDim, kMaxHeadDim, out.head_dim) != out.head_dim) {
    source.fail(kValueDim, "must be the same as " + source.name(kHeadDim));
  }
  if (out.heads % out.kv_heads != 0) {
    source.fail(kKvHeads, std::to_string(out.kv_heads) + " does not divide " + source.name(kHeads) +
                              ", which is " + std::to_string(out.heads));
  }
  out.bias = source.has_bias("attention_bias", "blk." + std::to_string(keys.layer) + ".attn_q.bias");
  return out;
}

}  // namespace reprise::models

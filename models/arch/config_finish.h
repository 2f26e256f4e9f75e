#pragma once
// What the two readers of ModelConfig share: limits, checks across fields, derived sizes.
//
// Threading: the functions share nothing.

#include <functional>
#include <string>
#include <string_view>

#include "models/arch/config.h"

namespace reprise::models {

/// The largest value each kind of size may have. No product of two of them overflows, and no config can make
/// us reserve memory out of proportion to a model that exists.
inline constexpr std::int64_t kMostLayers = 4096;
inline constexpr std::int64_t kMostHeads = 65536;
inline constexpr std::int64_t kLargestHeadDim = 65536;
inline constexpr std::int64_t kLargestSize = 1 << 24;  // hidden, intermediate
inline constexpr std::int64_t kLargestVocab = 1 << 26;
inline constexpr std::int64_t kLongestContext = (1ll << 31) - 1;  // a position has 31 bits
inline constexpr std::int64_t kLargestConvKernel = 256;

/// Names of the fields in the source at hand, for errors.
struct FieldNames {
  std::string_view heads, kv_heads, head_dim, rope_dimension, rope_theta, rope_scaling, mrope_section,
      rms_eps;
  std::string_view linear_key_heads, linear_value_heads, vocab;
};

/// Throws a LoadError for a field of the source at hand.
using Fail = std::function<void(std::string_view field, const std::string& reason)>;

/// Checks what no single field shows, then fills in every derived member.
void finish(ModelConfig& config, const FieldNames& names, const Fail& fail);

/// The i-th layer is full attention if (i + 1) is a multiple of `interval`.
std::vector<LayerType> layers_by_interval(std::size_t layers, std::size_t interval);

/// -1 means none. `fail` gets any other value outside the vocabulary.
std::optional<std::int32_t> token_id(std::int64_t value, std::size_t vocab, std::string_view field,
                                     const Fail& fail);

}  // namespace reprise::models

#include "models/arch/mla_keys.h"

#include <cmath>

#include "models/arch/config_source.h"

namespace reprise::models {
namespace {

constexpr Key kMlaHeads{"num_attention_heads", ""};
constexpr Key kMlaKvHeads{"num_key_value_heads", ""};
constexpr Key kRank{"kv_lora_rank", ""};
constexpr Key kQRank{"q_lora_rank", ""};
constexpr Key kPlainDim{"qk_nope_head_dim", ""};
constexpr Key kRotaryDim{"qk_rope_head_dim", ""};
constexpr Key kKeyDim{"qk_head_dim", ""};
constexpr Key kMlaValueDim{"v_head_dim", ""};

}  // namespace

MlaSpec read_mla(const HfSource& source, const MlaKeys& keys) {
  MlaSpec out;
  out.hidden = keys.hidden;
  out.norm = keys.norm;
  out.heads = source.count(kMlaHeads, kMaxHeads);
  if (source.count_or(kMlaKvHeads, kMaxHeads, out.heads) != out.heads) {
    source.fail(kMlaKvHeads, "must be the same as " + source.name(kMlaHeads) + ", which is " +
                                 std::to_string(out.heads) + ": all heads share the latents");
  }
  out.rank = source.count_or(kRank, kMaxSize, 512);
  out.q_rank = source.has(kQRank) ? source.count(kQRank, kMaxSize) : 0;
  out.plain_dim = source.count_or(kPlainDim, kMaxHeadDim, 128);
  out.rotary_dim = source.count_or(kRotaryDim, kMaxHeadDim, 64);
  out.value_dim = source.count_or(kMlaValueDim, kMaxHeadDim, 128);
  if (source.count_or(kKeyDim, 2 * kMaxHeadDim, out.key_dim()) != out.key_dim()) {
    source.fail(kKeyDim, "must be the sum of " + source.name(kPlainDim) + " and " + source.name(kRotaryDim) +
                             ", which is " + std::to_string(out.key_dim()));
  }
  out.bias = source.has_bias("attention_bias", "");
  out.score_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(out.key_dim())));
  return out;
}

}  // namespace reprise::models

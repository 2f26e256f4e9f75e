#include "tools/lab/random_model/gguf_types.h"

#include <algorithm>
#include <stdexcept>

#include "tools/lab/random_model/random_blocks.h"

namespace reprise::tools {
namespace {

using models::DType;

DType type_named(const std::string& word) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(DType::kCount); ++i) {
    const auto type = static_cast<DType>(i);
    if (models::info(type).name == word && has_random_blocks(type)) return type;
  }
  throw std::invalid_argument("'" + word + "' is no type that GGUF weights can be written in");
}

/// What a row that is not whole blocks is stored as.
DType with_smaller_blocks(DType type) {
  switch (type) {
    case DType::kQ2_K:
    case DType::kQ3_K:
      return DType::kQ4_0;
    case DType::kQ4_K:
      return DType::kQ5_0;
    case DType::kQ5_K:
      return DType::kQ5_1;
    case DType::kQ6_K:
      return DType::kQ8_0;
    case DType::kIQ4_XS:
      return DType::kIQ4_NL;
    default:
      return DType::kF16;
  }
}

bool has(const std::string& name, std::string_view part) {
  return name.find(part) != std::string::npos;
}

/// Whether a tensor is left out of every mix.
bool stays_f32(const GgufTypes::Place& place) {
  return place.shape.size() < 2 || !place.name.ends_with(".weight") || has(place.name, "_norm") ||
         has(place.name, "ffn_gate_inp") || has(place.name, "ssm_conv1d");
}

/// The first and the last eighth of the layers, and every third between.
bool matters_more(std::size_t layer, std::size_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

bool is_value(const std::string& name) {
  return has(name, "attn_v.") || has(name, "attn_qkv.");
}

}  // namespace

GgufTypes::GgufTypes(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::string base = words.front();
  for (const std::string_view mix : {"Q4_K_M", "Q5_K_M"}) {
    if (base == mix) more_bits_ = true;
  }
  if (more_bits_ || base == "Q4_K_S" || base == "Q5_K_S" || base == "Q3_K_S" || base == "Q2_K_S") {
    base.resize(4);
  }
  base_ = type_named(base);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals == std::string::npos || equals == 0) {
      throw std::invalid_argument("'" + words[i] + "' is not of the form PART_OF_A_NAME=TYPE");
    }
    exceptions_.emplace_back(words[i].substr(0, equals), type_named(words[i].substr(equals + 1)));
  }
}

DType GgufTypes::mixed(const Place& place) const {
  if (stays_f32(place)) return DType::kF32;
  const bool plain = models::info(base_).block_size == 1;
  if (plain || base_ == DType::kQ8_0) return base_;
  if (place.is_head) return DType::kQ6_K;
  if (base_ == DType::kIQ4_XS || base_ == DType::kIQ4_NL) {
    if (is_value(place.name) && place.heads_per_kv >= 4) return DType::kQ5_K;
    if (has(place.name, "ffn_down") && place.layer < place.layers / 8) return DType::kQ5_K;
  }
  if (more_bits_ && (is_value(place.name) || has(place.name, "ffn_down")) &&
      matters_more(place.layer, place.layers)) {
    return DType::kQ6_K;
  }
  return base_;
}

DType GgufTypes::type_of(const Place& place) const {
  DType type = mixed(place);
  for (const auto& [part, exception] : exceptions_) {
    if (has(place.name, part)) type = exception;
  }
  while (place.shape.back() % models::info(type).block_size != 0) type = with_smaller_blocks(type);
  return type;
}

std::uint32_t GgufTypes::file_type() const {
  switch (base_) {
    case DType::kF32:
      return 0;
    case DType::kF16:
      return 1;
    case DType::kBF16:
      return 32;
    case DType::kQ4_0:
      return 2;
    case DType::kQ4_1:
      return 3;
    case DType::kQ5_0:
      return 8;
    case DType::kQ5_1:
      return 9;
    case DType::kQ8_0:
      return 7;
    case DType::kQ2_K:
      return 10;
    case DType::kQ3_K:
      return 11;
    case DType::kQ4_K:
      return more_bits_ ? 15 : 14;
    case DType::kQ5_K:
      return more_bits_ ? 17 : 16;
    case DType::kQ6_K:
      return 18;
    case DType::kIQ4_NL:
      return 25;
    case DType::kIQ4_XS:
      return 30;
    default:
      return 38;  // MXFP4
  }
}

}  // namespace reprise::tools

#include "tools/lab/random_model/write.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "models/arch/config.h"
#include "models/files/dtype.h"
#include "models/files/json_location.h"
#include "tools/lab/random_model/new_file.h"
#include "tools/lab/random_model/random_blocks.h"

namespace reprise::tools {
namespace {

using models::DType;
using models::GgufLayout;
using models::ModelConfig;
using models::TensorSpec;

DType type_named(const std::string& word) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(DType::kCount); ++i) {
    const auto type = static_cast<DType>(i);
    if (models::info(type).name == word && has_random_blocks(type)) return type;
  }
  throw std::invalid_argument("'" + word + "' is no type that GGUF weights can be written in");
}

/// Returns the type for rows that are not a multiple of `type`'s block size.
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

/// Returns whether a tensor is F32 in every mix.
bool stays_f32(const GgufTypes::Place& place) {
  return place.shape.size() < 2 || !place.name.ends_with(".weight") || has(place.name, "_norm") ||
         has(place.name, "ffn_gate_inp") || has(place.name, "ssm_conv1d");
}

/// Returns true for the first and last eighth of the layers, and every third between.
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

namespace {

/// The header of a GGUF file: key-value pairs of a model of a given shape, and tensor descriptions.
class GgufHeader {
 public:
  static constexpr std::uint64_t kAlignment = 32;  // bytes; of the tensors' data

  void text(std::string_view key, std::string_view value);
  void u32(std::string_view key, std::size_t value);
  void u16(std::string_view key, std::size_t value);
  void i32(std::string_view key, std::size_t value);
  void f32(std::string_view key, float value);
  void i32s(std::string_view key, const std::vector<std::int32_t>& values);

  /// Adds a tensor; `shape` outermost first. Its data follow those of the previous tensor, aligned.
  void tensor(std::string_view name, models::DType type, const models::Shape& shape, std::uint64_t bytes);

  /// Returns the header, padded up to the data.
  std::string bytes() const;

 private:
  void key(std::string_view name, std::uint32_t type);
  void string(std::string& to, std::string_view text);

  std::string keys_;
  std::string tensors_;
  std::uint64_t key_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t data_size_ = 0;
};

static_assert(std::endian::native == std::endian::little);

enum ValueType : std::uint32_t { kU16 = 2, kU32 = 4, kI32 = 5, kF32 = 6, kText = 8, kArray = 9 };

template <class T>
void put(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  to.append(bytes, sizeof(T));
}

std::uint64_t aligned(std::uint64_t size) {
  return (size + GgufHeader::kAlignment - 1) / GgufHeader::kAlignment * GgufHeader::kAlignment;
}

std::string architecture_of(const std::string& type) {
  if (type == "llama" || type == "qwen3") return type;
  if (type == "qwen3_5_text") return "qwen35";
  if (type == "qwen3_5_moe_text") return "qwen35moe";
  if (type == "qwen3_next") return "qwen3next";
  throw std::invalid_argument("no GGUF files are written of " + type);
}

void GgufHeader::string(std::string& to, std::string_view text) {
  put(to, std::uint64_t{text.size()});
  to.append(text);
}

void GgufHeader::key(std::string_view name, std::uint32_t type) {
  string(keys_, name);
  put(keys_, type);
  ++key_count_;
}

void GgufHeader::text(std::string_view name, std::string_view value) {
  key(name, kText);
  string(keys_, value);
}

void GgufHeader::u32(std::string_view name, std::size_t value) {
  key(name, kU32);
  put(keys_, static_cast<std::uint32_t>(value));
}

void GgufHeader::u16(std::string_view name, std::size_t value) {
  key(name, kU16);
  put(keys_, static_cast<std::uint16_t>(value));
}

void GgufHeader::i32(std::string_view name, std::size_t value) {
  key(name, kI32);
  put(keys_, static_cast<std::int32_t>(value));
}

void GgufHeader::f32(std::string_view name, float value) {
  key(name, kF32);
  put(keys_, value);
}

void GgufHeader::i32s(std::string_view name, const std::vector<std::int32_t>& values) {
  key(name, kArray);
  put(keys_, std::uint32_t{kI32});
  put(keys_, std::uint64_t{values.size()});
  for (const std::int32_t value : values) put(keys_, value);
}

void GgufHeader::tensor(std::string_view name, models::DType type, const models::Shape& shape,
                        std::uint64_t bytes) {
  string(tensors_, name);
  put(tensors_, static_cast<std::uint32_t>(shape.size()));
  for (std::size_t i = shape.size(); i-- > 0;) put(tensors_, shape[i]);
  const std::optional<std::uint32_t> id = models::ggml_id(type);
  REPRISE_CHECK(id.has_value(), "the type is not one of GGUF's");
  put(tensors_, *id);
  put(tensors_, data_size_);
  data_size_ += aligned(bytes);
  ++tensor_count_;
}

std::string GgufHeader::bytes() const {
  std::string out = "GGUF";
  put(out, std::uint32_t{3});
  put(out, tensor_count_);
  put(out, key_count_);
  out += keys_;
  out += tensors_;
  out.resize(aligned(out.size()));
  return out;
}

/// Adds the keys of the shape's family, as llama.cpp and Reprise read them. The file has no vocabulary:
/// prompts are token ids. Throws std::invalid_argument for a family that GGUF does not support.
void add_keys(GgufHeader& header, const RandomShape& shape, std::uint32_t file_type) {
  const std::string arch = architecture_of(shape.type);
  header.text("general.architecture", arch);
  header.text("general.name", "random weights");
  header.u32("general.file_type", file_type);
  header.u32("general.quantization_version", 2);
  const auto number = [&](std::string_view name, std::size_t value) {
    header.u32(arch + "." + std::string(name), value);
  };
  number("block_count", shape.layers);
  number("context_length", shape.context);
  number("embedding_length", shape.hidden);
  number("vocab_size", shape.vocab);
  number("attention.head_count", shape.heads);
  number("attention.head_count_kv", shape.kv_heads);
  number("attention.key_length", shape.head_dim);
  number("attention.value_length", shape.head_dim);
  header.f32(arch + ".attention.layer_norm_rms_epsilon", 1e-6F);
  if (shape.experts == 0) {
    number("feed_forward_length", shape.intermediate);
  } else {
    number("expert_count", shape.experts);
    number("expert_used_count", shape.experts_per_token);
    number("expert_feed_forward_length", shape.expert_intermediate);
    number("expert_shared_feed_forward_length", shape.shared_intermediate);
  }
  if (shape.is_hybrid()) {
    const std::vector<std::int32_t> sections = shape.rope_sections();
    number("rope.dimension_count", shape.head_dim / 4);
    header.i32s(arch + ".rope.dimension_sections", {sections[0], sections[1], sections[2], 0});
    header.f32(arch + ".rope.freq_base", 1e7F);
    number("full_attention_interval", shape.attention_interval);
    number("ssm.conv_kernel", shape.conv_kernel);
    number("ssm.state_size", shape.key_head_dim);
    number("ssm.group_count", shape.key_heads);
    number("ssm.time_step_rank", shape.value_heads);
    number("ssm.inner_size", shape.value_heads * shape.value_head_dim);
  } else {
    number("rope.dimension_count", shape.head_dim);
    header.f32(arch + ".rope.freq_base", 1e6F);
  }
  header.text("tokenizer.ggml.model", "none");
}

constexpr std::size_t kAtOnce = 1 << 20;  // bytes

/// A tensor of the file; `spec` is the same tensor or a piece of it.
struct InFile {
  const TensorSpec* spec;
  std::string name;
  models::Shape shape;
  DType type;
  std::uint64_t bytes;
};

std::size_t layer_of(const std::string& name) {
  return name.starts_with("blk.") ? std::stoul(name.substr(4)) : 0;
}

/// Returns the shape in the file: without dimensions of 1.
models::Shape shape_in_file(const TensorSpec& spec) {
  models::Shape out;
  for (const std::uint64_t size : spec.gguf.piece ? spec.gguf.piece->of : spec.shape) {
    if (size != 1) out.push_back(size);
  }
  if (out.empty()) out = {1};
  return out;
}

std::vector<InFile> tensors_of(const ModelConfig& config, const RandomShape& shape, const GgufTypes& types) {
  std::vector<InFile> out;
  std::set<std::string> seen;
  for (const TensorSpec& spec : config.tensors) {
    const std::string& name = spec.gguf.names.front();
    if (!seen.insert(name).second) continue;  // another piece of the same tensor
    const models::Shape in_file = shape_in_file(spec);
    const DType type = types.type_of({.name = name,
                                      .shape = in_file,
                                      .layer = layer_of(name),
                                      .layers = shape.layers,
                                      .is_head = spec.name == config.head + ".weight",
                                      .heads_per_kv = shape.heads / shape.kv_heads});
    out.push_back({&spec, name, in_file, type, *models::byte_size(type, in_file)});
  }
  return out;
}

/// Converts a value from Hugging Face's convention to the file's.
float in_file(GgufLayout::Values values, float value) {
  switch (values) {
    case GgufLayout::Values::kSame:
      return value;
    case GgufLayout::Values::kPlusOne:
      return value + 1.0F;
    case GgufLayout::Values::kNegativeExp:
      return -std::exp(value);
  }
  return value;
}

void write_vector(NewFile& file, const InFile& tensor, const ModelConfig& config, Random& random) {
  const Draw draw = draw_for(*tensor.spec, config);
  std::vector<float> values(tensor.bytes / sizeof(float));
  for (float& value : values) value = in_file(tensor.spec->gguf.layout.values, draw(random));
  file.write(values.data(), tensor.bytes);
}

void write_matrix(NewFile& file, const InFile& tensor, const ModelConfig& config, Random& random) {
  const float deviation = scale_for(*tensor.spec, config);
  const std::size_t block = models::info(tensor.type).block_bytes;
  std::vector<std::byte> bytes;
  for (std::uint64_t left = tensor.bytes; left > 0; left -= bytes.size()) {
    bytes.resize(std::min<std::uint64_t>(left, kAtOnce / block * block));
    random_blocks(tensor.type, deviation, random, bytes);
    file.write(bytes.data(), bytes.size());
  }
}

std::filesystem::path part_path(const std::filesystem::path& path, std::size_t part, std::size_t parts) {
  if (parts == 1) return path;
  char end[64];
  std::snprintf(end, sizeof end, "-%05zu-of-%05zu.gguf", part + 1, parts);
  return path.parent_path() / (path.stem().string() + end);
}

void write_part(const std::filesystem::path& path, const GgufHeader& header, std::span<const InFile> tensors,
                const ModelConfig& config, std::uint64_t seed, bool hollow) {
  NewFile file(path);
  const std::string front = header.bytes();
  file.write(front.data(), front.size());
  for (const InFile& tensor : tensors) {
    Random random(seed, tensor.name);
    const bool is_matrix = tensor.shape.size() > 1 && tensor.name.find("ssm_conv1d") == std::string::npos;
    if (is_matrix && hollow) {
      file.skip(tensor.bytes);
    } else {
      (is_matrix ? write_matrix : write_vector)(file, tensor, config, random);
    }
    const std::string padding(
        (GgufHeader::kAlignment - tensor.bytes % GgufHeader::kAlignment) % GgufHeader::kAlignment, '\0');
    file.write(padding.data(), padding.size());
  }
  file.finish();
}

}  // namespace

std::uint64_t write_random_gguf(const RandomShape& shape, const GgufTypes& types, std::uint64_t seed,
                                const std::filesystem::path& path, std::size_t parts, bool hollow) {
  const ModelConfig config =
      ModelConfig::from_hf(models::JsonLocation::parse(config_json(shape), "config.json"));
  const std::vector<InFile> tensors = tensors_of(config, shape, types);
  if (parts < 1 || parts > tensors.size()) throw std::invalid_argument("a part must have a tensor");
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());

  std::uint64_t bytes = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t first = tensors.size() * part / parts;
    const std::span<const InFile> own(tensors.data() + first, tensors.size() * (part + 1) / parts - first);
    GgufHeader header;
    if (part == 0) add_keys(header, shape, types.file_type());
    if (parts > 1) {
      header.u16("split.no", part);
      header.u16("split.count", parts);
      header.i32("split.tensors.count", tensors.size());
    }
    for (const InFile& tensor : own) {
      header.tensor(tensor.name, tensor.type, tensor.shape, tensor.bytes);
      bytes += tensor.bytes;
    }
    write_part(part_path(path, part, parts), header, own, config, seed, hollow);
  }
  return bytes;
}

}  // namespace reprise::tools

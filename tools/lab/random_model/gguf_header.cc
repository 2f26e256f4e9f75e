#include "tools/lab/random_model/gguf_header.h"

#include <bit>
#include <cstring>
#include <stdexcept>

#include "base/check.h"

namespace reprise::tools {
namespace {

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

}  // namespace

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

}  // namespace reprise::tools

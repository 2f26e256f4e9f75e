#pragma once
// Writes models with random weights, as a Hugging Face folder (bf16, or FP8 in 128 x 128 tiles) or as a GGUF
// file of any type, to measure speed, exactness and loading without real weights.
//
// The bytes depend only on the shape, the types and the seed; a folder's values only on the seed and the
// tensor's name. Tensors are generated and written one MiB at a time.
//
// Threading: concurrent calls must use different folders.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/files/dtype.h"

namespace reprise::tools {

/// The shape of a model: a predefined one, possibly modified.
struct RandomShape {
  std::string type;  // model_type of Hugging Face: llama, qwen3, qwen3_5_text, qwen3_5_moe_text, qwen3_next
  std::size_t layers = 0;
  std::size_t hidden = 0;
  std::size_t intermediate = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;
  std::size_t vocab = 0;
  bool tied = false;  // the embedding is also the LM head

  // Only qwen3_5_moe_text and qwen3_next, which have no `intermediate`.
  std::size_t experts = 0;
  std::size_t experts_per_token = 0;
  std::size_t expert_intermediate = 0;
  std::size_t shared_intermediate = 0;  // of the shared expert

  // Only hybrid models.
  std::size_t attention_interval = 4;  // every n-th layer is attention
  std::size_t key_heads = 0;
  std::size_t value_heads = 0;
  std::size_t key_head_dim = 0;
  std::size_t value_head_dim = 0;
  std::size_t conv_kernel = 4;

  std::size_t context = 262144;

  /// Returns whether the model has Gated DeltaNet layers.
  bool is_hybrid() const {
    return type == "qwen3_5_text" || type == "qwen3_5_moe_text" || type == "qwen3_next";
  }
  /// Returns the M-RoPE sections (time, height, width), in pairs, of a hybrid, which rotates a quarter of
  /// each head.
  std::vector<std::int32_t> rope_sections() const {
    const auto pairs = static_cast<std::int32_t>(head_dim / 8);
    return {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3};
  }
};

struct NamedShape {
  std::string_view name;
  RandomShape shape;
};

const std::vector<NamedShape>& named_shapes();
/// Returns null for an unknown name.
const RandomShape* shape_named(std::string_view name);

/// Returns the config.json of a Hugging Face folder. Does not validate the shape.
std::string config_json(const RandomShape& shape);

/// Type of the layers' matrices; all other tensors are bf16.
enum class FolderType { kBf16, kFp8 };

/// Writes config.json and model.safetensors into the folder, creating it if needed. Returns the bytes of the
/// weights. Throws models::LoadError for an invalid shape, std::runtime_error if a file exists or cannot be
/// written; model.safetensors appears complete or not at all.
std::uint64_t write_random_model(const RandomShape& shape, std::uint64_t seed,
                                 const std::filesystem::path& folder, FolderType type = FolderType::kBf16);

/// The type of each tensor of a GGUF file: the mixes of llama.cpp's quantizer, with exceptions.
///
///   Q4_K_M                            mix: Q4_K, and Q6_K where llama.cpp uses more bits
///   Q8_0                              one type for all matrices
///   Q4_K_M,ffn_down=Q8_0,blk.0.=F16   exceptions: the last whose left side occurs in the tensor's name
///                                     applies
///
/// Norms, vectors, convolutions and MoE routers are always F32. If a row is not a multiple of the type's
/// block size, a type with smaller blocks is used, as in llama.cpp.
class GgufTypes {
 public:
  /// Throws std::invalid_argument for an unknown mix or type.
  explicit GgufTypes(const std::string& text);

  struct Place {
    std::string name;  // name in the file
    models::Shape shape;
    std::size_t layer = 0;
    std::size_t layers = 0;
    bool is_head = false;          // weight of the LM head
    std::size_t heads_per_kv = 1;  // query heads per KV head of the model
  };
  models::DType type_of(const Place& place) const;

  /// Returns llama.cpp's general.file_type of the mix.
  std::uint32_t file_type() const;

 private:
  models::DType mixed(const Place& place) const;

  models::DType base_ = models::DType::kF32;
  bool more_bits_ = false;  // an _M mix
  std::vector<std::pair<std::string, models::DType>> exceptions_;
};

/// Writes one GGUF file or, if `parts` > 1, "NAME-00001-of-0000N.gguf"; `path` ends in ".gguf". Returns the
/// bytes of the weights. `hollow`: weights are zeros in file holes, for callers that need only sizes. Throws
/// models::LoadError for an invalid shape, std::invalid_argument if GGUF does not support it, and
/// std::runtime_error if a file exists or cannot be written; files appear complete or not at all.
std::uint64_t write_random_gguf(const RandomShape& shape, const GgufTypes& types, std::uint64_t seed,
                                const std::filesystem::path& path, std::size_t parts = 1,
                                bool hollow = false);

}  // namespace reprise::tools

#pragma once
// Models with random weights, as a Hugging Face folder (bf16, or FP8 in tiles of 128 x 128) or as a GGUF file of any types:
// speed, exactness and loading can be measured on them without anybody's weights, what they say cannot.
//
// The bytes are a function of the shape, the types and the seed: a folder's numbers of the seed and the tensor's name alone.
// Tensors are made and written a megabyte at a time, so a large file takes no memory.
//
// Threading: share nothing but the folder.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/files/dtype.h"

namespace reprise::tools {

/// The shape of a model: a named one, or any other by changing its fields.
struct RandomShape {
  std::string type;  // Hugging Face's model_type: llama, qwen3, qwen3_5_text, qwen3_5_moe_text, qwen3_next
  std::size_t layers = 0;
  std::size_t hidden = 0;
  std::size_t intermediate = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;
  std::size_t vocab = 0;
  bool tied = false;  // the embedding is the head as well

  // qwen3_5_moe_text and qwen3_next alone, which have no `intermediate`
  std::size_t experts = 0;
  std::size_t experts_per_token = 0;
  std::size_t expert_intermediate = 0;
  std::size_t shared_intermediate = 0;  // of the expert that all tokens share

  // All of these three
  std::size_t attention_interval = 4;  // every so-manyth layer is attention
  std::size_t key_heads = 0;
  std::size_t value_heads = 0;
  std::size_t key_head_dim = 0;
  std::size_t value_head_dim = 0;
  std::size_t conv_kernel = 4;

  std::size_t context = 262144;

  /// Whether some layers are Gated DeltaNets.
  bool is_hybrid() const {
    return type == "qwen3_5_text" || type == "qwen3_5_moe_text" || type == "qwen3_next";
  }
  /// Of a hybrid, where a quarter of each head turns: the pairs that turn with time, height and width.
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
/// Null for a word that names none.
const RandomShape* shape_named(std::string_view name);

/// The config.json of a Hugging Face folder. Whether it makes sense is for its reader to say.
std::string config_json(const RandomShape& shape);

/// Of the matrices of layers; everything else is bf16.
enum class FolderType { kBf16, kFp8 };

/// config.json and model.safetensors into the folder, which is made if need be. Returns the bytes of the
/// weights. Throws models::LoadError for a shape that is no model, and std::runtime_error for a file that is
/// there already or cannot be written; model.safetensors appears whole or not at all.
std::uint64_t write_random_model(const RandomShape& shape, std::uint64_t seed,
                                 const std::filesystem::path& folder, FolderType type = FolderType::kBf16);

/// Which type each tensor of a GGUF file has: the mixes that llama.cpp's quantizer makes, and exceptions from them.
///
///   Q4_K_M                        a mix: Q4_K, and Q6_K where its authors found more bits to matter
///   Q8_0                          one type for all matrices
///   Q4_K_M,ffn_down=Q8_0,blk.0.=F16   the last that is part of the tensor's name counts
///
/// Norms, vectors, convolutions and the routers of experts are F32 in all of them. A row that is not whole blocks of
/// its type has a type of smaller blocks, as in llama.cpp.
class GgufTypes {
 public:
  /// Throws std::invalid_argument for a word that is neither mix nor type.
  explicit GgufTypes(const std::string& text);

  struct Place {
    std::string name;  // in the file
    models::Shape shape;
    std::size_t layer = 0;
    std::size_t layers = 0;
    bool is_head = false;          // what the last product is with
    std::size_t heads_per_kv = 1;  // of the model's attention
  };
  models::DType type_of(const Place& place) const;

  /// general.file_type of the mix, a number of llama.cpp's.
  std::uint32_t file_type() const;

 private:
  models::DType mixed(const Place& place) const;

  models::DType base_ = models::DType::kF32;
  bool more_bits_ = false;  // an _M mix
  std::vector<std::pair<std::string, models::DType>> exceptions_;
};

/// One file, or `parts` of them, "NAME-00001-of-0000N.gguf", for a path that ends in ".gguf". Returns the bytes of
/// the weights. `hollow`: they are zeros that take no room on the disk, for callers that look at sizes alone. Throws
/// models::LoadError for a shape that is no model, std::invalid_argument for one that GGUF files are not written of, and
/// std::runtime_error for a file that is there already or cannot be written; files appear whole or not at all.
std::uint64_t write_random_gguf(const RandomShape& shape, const GgufTypes& types, std::uint64_t seed,
                                const std::filesystem::path& path, std::size_t parts = 1,
                                bool hollow = false);

}  // namespace reprise::tools

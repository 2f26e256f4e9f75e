#pragma once
// Opened model files: a Hugging Face folder (config.json and safetensors) or a GGUF file. Callers see one
// configuration and one set of tensors with Hugging Face's names and layout, whatever the format.
//
// open() reads headers only. It checks that every tensor the family needs exists with the right shape.
// Tensors of vision towers and multi-token prediction are ignored, but an unknown weight inside a layer is an
// error, because leaving it out would give wrong answers. Errors are LoadErrors with file, tensor and reason.
//
// tensor() returns a view into the mapped file if the bytes already have Hugging Face's layout, else a buffer
// of its own: after undoing a GGUF transform, or gathering rows stored apart. Types stay as stored, except
// that transformed norms and decays become F32. Types that no kernel supports are refused only here, by name.
// A quantized matrix that a folder stores as several tensors is returned as one, in its own format
// (models/files/quantized_tensor.h).
//
// Threading: const access from any thread. Movable; views stay valid across a move and end with the object.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/arch/config.h"
#include "models/files/gguf.h"
#include "models/files/quant_scheme.h"
#include "models/files/quantized_tensor.h"
#include "models/files/tensor_source.h"

namespace reprise::models {

struct Tensor {
  std::string name;  // canonical
  DType type = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;            // row-major, aligned for `type`
  std::shared_ptr<const std::byte[]> owned{};  // owns `bytes`; null: they are in the mapped file

  // f32 scales, one per tile of rows and columns; only for formats that store them apart from the blocks.
  std::span<const std::byte> scales{};
  std::shared_ptr<const std::byte[]> owned_scales{};

  /// column_order[i] is the model's column stored at index i of a row; empty: stored in order.
  std::vector<std::uint32_t> column_order{};

  std::uint64_t elements() const { return bytes.size() / info(type).block_bytes * info(type).block_size; }
};

/// Column orders the caller accepts. kAny: any Tensor::column_order; quantized tensors need it if their
/// blocks cannot be cut or their groups are scattered.
enum class ColumnOrder : std::uint8_t { kOfModel, kAny };

/// Called with the bytes done so far and in total. May throw to stop the work.
using LoadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

class ModelFiles {
 public:
  static ModelFiles open(const std::filesystem::path& path, std::span<const Family> known = families());
  /// A model without files or tensors, such as a test's.
  static ModelFiles without_files(ModelConfig config) {
    ModelFiles files;
    files.config_ = std::move(config);
    return files;
  }

  const ModelConfig& config() const { return config_; }
  const std::string& path() const { return path_; }

  /// Canonical names of all tensors, in order of use.
  const std::vector<std::string>& names() const { return names_; }
  bool has(std::string_view name) const { return find(name) != nullptr; }

  /// Throws LoadError for an unknown name or a type that no kernel supports.
  Tensor tensor(std::string_view name, ColumnOrder order = ColumnOrder::kOfModel) const;

  /// Shape and stored type, without reading the data; throw LoadError for an unknown name.
  const Shape& shape(std::string_view name) const { return at(name).spec.shape; }
  DType stored_type(std::string_view name) const {
    const Entry& entry = at(name);
    return entry.quantized ? entry.quantized->type : entry.stored->type;
  }

  /// True if tensor() returns a copy instead of bytes of the file.
  bool is_copied(std::string_view name) const;

  std::uint64_t total_bytes() const { return total_bytes_; }

  /// Reads every byte of every tensor once, which also brings the files into memory. Throws LoadError for a
  /// weight that is infinite or NaN, or a file that has shrunk. Values in block formats are not checked.
  void validate(const LoadProgress& progress = {}) const;

  /// Metadata of the GGUF file, including the tokenizer; null for a Hugging Face folder.
  const Gguf* gguf() const { return gguf_ ? &*gguf_ : nullptr; }

  /// All tensors in the files, under their stored names and layouts.
  const TensorSource& source() const { return gguf_ ? gguf_->tensors() : safetensors_; }

 private:
  struct Entry {
    TensorSpec spec;
    const StoredTensor* stored;                     // in source()
    std::vector<std::span<const std::byte>> bytes;  // bytes of `stored`, or slices of them, in order
    GgufLayout layout;                              // transform to undo
    std::optional<QuantizedTensor> quantized{};

    std::uint64_t size() const {
      std::uint64_t out = 0;
      for (const std::span<const std::byte> part : bytes) out += part.size();
      return out;
    }
    bool is_piece() const { return size() != stored->bytes.size(); }
  };

  using Alternatives = std::vector<StoredAs>;  // names to try, in order
  using AlternativesOf = std::function<Alternatives(const TensorSpec&)>;

  ModelFiles() = default;
  void bind(const AlternativesOf& alternatives_of, std::string_view layer_prefix);
  Entry entry_of(const TensorSpec& spec, const Alternatives& alternatives) const;
  Tensor quantized_tensor(const Entry& entry, ColumnOrder order) const;

  using OwnedBytes = std::pair<std::shared_ptr<const std::byte[]>, std::span<const std::byte>>;
  OwnedBytes scales_of(const Entry& entry) const;  // f32 scales of an FP8 tensor
  const Entry* find(std::string_view name) const;
  const Entry& at(std::string_view name) const;

  std::string path_;
  ModelConfig config_;
  std::optional<Gguf> gguf_;
  TensorSource safetensors_;
  std::optional<QuantScheme> scheme_;  // how the folder quantizes matrices
  std::vector<Entry> entries_;
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, std::size_t> index_;  // keys point into names_
  std::uint64_t total_bytes_ = 0;
};

}  // namespace reprise::models

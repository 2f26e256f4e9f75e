#pragma once
// A checkpoint on disk, opened: a Hugging Face folder (config.json and safetensors) or a GGUF file. Callers
// see one configuration and one set of tensors, named and laid out as Hugging Face has them, whatever the
// format.
//
// open() reads headers only. It has checked that every tensor the architecture needs is there with the right
// shape; tensors of vision towers and multi-token prediction are left alone, but an unknown weight inside a
// layer is an error, because leaving it out would give wrong answers. What is wrong ends in a LoadError
// naming file, tensor and reason.
//
// tensor() gives a view into the mapped file where the bytes are already Hugging Face's, and a buffer of its
// own where a GGUF transform had to be undone or rows that stand apart had to be brought together. Types stay as
// stored; undone norms and decays are F32. A type that cannot be computed with is refused here, by name, and nowhere
// earlier. What the scheme of a quantised folder keeps in several tensors is one, in a format of its own
// (models/files/quantised_tensor.h).
//
// Threading: const access from any thread. Movable; views stay valid when it moves and end with it.

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
#include "models/files/quantised_tensor.h"
#include "models/files/tensor_source.h"

namespace reprise::models {

struct Tensor {
  std::string name;  // canonical
  DType type = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;            // row-major, aligned for its type
  std::shared_ptr<const std::byte[]> owned{};  // holds `bytes`; null: they are in the checkpoint's mapping

  // Of formats that have them apart: f32, for tiles of rows and columns.
  std::span<const std::byte> scales{};
  std::shared_ptr<const std::byte[]> owned_scales{};

  /// Which of the model's columns stands at each place of a row; empty: each at its own.
  std::vector<std::uint32_t> column_order{};

  std::uint64_t elements() const { return bytes.size() / info(type).block_bytes * info(type).block_size; }
};

/// Whether a caller can do with columns that stand in another order than the model's (Tensor::column_order): those
/// of quantised tensors whose blocks cannot be cut, or whose groups are scattered.
enum class ColumnOrder : std::uint8_t { kOfModel, kAny };

/// Bytes done so far, and in all. May throw to stop the work.
using LoadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

class Checkpoint {
 public:
  static Checkpoint open(const std::filesystem::path& path, std::span<const Family> known = families());
  /// Of a model that has no tensors in files.
  static Checkpoint without_files(ModelConfig config) {
    Checkpoint checkpoint;
    checkpoint.config_ = std::move(config);
    return checkpoint;
  }

  const ModelConfig& config() const { return config_; }
  const std::string& path() const { return path_; }

  /// Canonical names of all tensors, in the order of use.
  const std::vector<std::string>& names() const { return names_; }
  bool has(std::string_view name) const { return find(name) != nullptr; }

  /// LoadError for a name that the model does not have or a type that cannot be computed with.
  Tensor tensor(std::string_view name, ColumnOrder order = ColumnOrder::kOfModel) const;

  /// Shape and stored type without touching the data; LoadError for an unknown name.
  const Shape& shape(std::string_view name) const { return at(name).spec.shape; }
  DType stored_type(std::string_view name) const {
    const Entry& entry = at(name);
    return entry.quantised ? entry.quantised->type : entry.stored->type;
  }

  /// Whether tensor() gives a copy, and not bytes of the file.
  bool is_copied(std::string_view name) const;

  /// Stored bytes of all tensors in names().
  std::uint64_t total_bytes() const { return total_bytes_; }

  /// Reads every byte of every tensor once, which also brings the files into memory. LoadError for a weight
  /// that is infinite or not a number, and for a file that has shrunk. Block types are read but not judged.
  void validate(const LoadProgress& progress = {}) const;

  /// The file's metadata, which has the tokenizer; null for a Hugging Face folder.
  const Gguf* gguf() const { return gguf_ ? &*gguf_ : nullptr; }

  /// All that the files hold, as they hold it.
  const TensorSource& source() const { return gguf_ ? gguf_->tensors() : safetensors_; }

 private:
  struct Entry {
    TensorSpec spec;
    const StoredTensor* stored;                     // into source()
    std::vector<std::span<const std::byte>> bytes;  // those of `stored`, or pieces of them, in order
    GgufLayout layout;                              // to be undone
    std::optional<QuantisedTensor> quantised{};

    std::uint64_t size() const {
      std::uint64_t out = 0;
      for (const std::span<const std::byte> part : bytes) out += part.size();
      return out;
    }
    bool is_piece() const { return size() != stored->bytes.size(); }
  };

  using Places = std::vector<StoredAs>;                       // the first that is there counts
  using PlacesOf = std::function<Places(const TensorSpec&)>;  // where the files may have it

  Checkpoint() = default;
  void bind(const PlacesOf& places_of, std::string_view layer_prefix);
  Entry entry_of(const TensorSpec& spec, const Places& places) const;
  Tensor quantised_tensor(const Entry& entry, ColumnOrder order) const;

  using OwnedBytes = std::pair<std::shared_ptr<const std::byte[]>, std::span<const std::byte>>;
  OwnedBytes scales_of(const Entry& entry) const;  // of FP8, as f32
  const Entry* find(std::string_view name) const;
  const Entry& at(std::string_view name) const;

  std::string path_;
  ModelConfig config_;
  std::optional<Gguf> gguf_;
  TensorSource safetensors_;
  std::optional<QuantScheme> scheme_;  // of a folder whose matrices may be quantised
  std::vector<Entry> entries_;
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, std::size_t> index_;  // keys are in names_
  std::uint64_t total_bytes_ = 0;
};

}  // namespace reprise::models

#pragma once
// What every kind of part of a layer is described with. A kind has a file here (models/parts/attention.h), with
//   - its spec: sizes and options, a plain value with a name;
//   - add_tensors(tensors, spec, block): its tensors, in the order of use;
//   - declare_state(spec, state): what it keeps for each token and each sequence, and where that is;
//   - gpu_refusal(spec): why a GPU does not compute it; nothing: it does;
//   - describe(spec): its sizes, as `reprise inspect` prints them;
// and, where it has small tensors that kernels want in a form of their own, a function that loads them, for all devices.
// models/cpu and models/cuda build it from the spec (make_part in their part.h).
//
// Threading: plain values; lists and layouts are filled by one thread while a model is described or built.

#include <compare>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/gpu_limits.h"
#include "gpu/state_store.h"
#include "models/files/tensor_spec.h"

namespace reprise::models {

/// A norm over rows: y = x / rms(x) * (offset + weight); or, centred, LayerNorm: y = (x - mean(x)) / deviation(x) * weight +
/// bias. This is what the norms of a model have in common.
struct NormKind {
  float offset = 0;  // 1 where weights are zero-centred
  float eps = 1e-6F;
  bool centred = false;  // has a bias, and no offset

  bool operator==(const NormKind&) const = default;
};

struct NormSpec {
  std::string name{};    // of its weight [size], without ".weight"; centred, its ".bias" stands beside it
  std::size_t size = 0;  // of a row
  NormKind kind{};

  bool operator==(const NormSpec&) const = default;
};

/// The tensors of a model in the making, in the order of use. GGUF names are llama.cpp's.
class TensorList {
 public:
  void add(TensorSpec spec) { specs_.push_back(std::move(spec)); }
  void add(std::string name, Shape shape, std::string gguf, const GgufLayout& layout = {}) {
    add({.name = std::move(name), .shape = std::move(shape), .gguf = {{std::move(gguf)}, {}, layout}});
  }

  /// A matrix [rows, columns] and, if it has one, its bias. Names without ".weight".
  void add_linear(const std::string& name, std::size_t rows, std::size_t columns, const std::string& gguf,
                  bool bias = false, const GgufLayout& layout = {}) {
    add(name + ".weight", {rows, columns}, gguf + ".weight", layout);
    if (bias) add(name + ".bias", {rows}, gguf + ".bias", layout);
  }

  /// The weight of a norm, and its bias where it has one; GGUF has it with the 1 of zero-centred ones added. Name
  /// without ".weight".
  void add_norm(const NormSpec& norm, const std::string& gguf) {
    GgufLayout layout;
    if (norm.kind.offset == 1) layout.values = GgufLayout::Values::kPlusOne;
    add(norm.name + ".weight", {norm.size}, gguf + ".weight", layout);
    if (norm.kind.centred) add(norm.name + ".bias", {norm.size}, gguf + ".bias");
  }

  /// The last one also goes by this name in GGUF files.
  void also_called(std::string gguf) { specs_.back().gguf.names.push_back(std::move(gguf)); }

  /// The one that was added last.
  TensorSpec& last() { return specs_.back(); }

  std::vector<TensorSpec> take() { return std::move(specs_); }

 private:
  std::vector<TensorSpec> specs_;
};

/// How the layers of a model lay out their state. Each part declares what it keeps for each token and for each sequence and
/// gets back its offset; snapshots, pages and slots know the sums alone.
///
/// What a layer has to remember of a prompt's last tokens alone, until the prompt is compacted (models/compaction.h), is no
/// state: no snapshot carries it, and a sequence that goes on from one has it of the tokens that it computes itself.
class StateLayout {
 public:
  struct Field {
    std::string name;
    std::size_t bytes;   // for each token, or for each sequence
    std::size_t offset;  // in the page, where kPageTokens * bytes follow; or in the slot
  };

  /// State of every token: a region of kPageTokens * bytes in each page, ordered as the layer likes. Returns
  /// its offset.
  std::size_t add_per_token(std::string name, std::size_t bytes) {
    return add(per_token_, page_bytes_, std::move(name), bytes, bytes * gpu::kPageTokens);
  }

  /// State of the sequence as a whole, zeros at its beginning. Returns its offset in the slot.
  std::size_t add_per_sequence(std::string name, std::size_t bytes) {
    return add(per_sequence_, slot_bytes_, std::move(name), bytes, bytes);
  }

  /// Of each of a prompt's last tokens, for compaction. Returns its offset in the token's row.
  std::size_t add_to_tail(std::string name, std::size_t bytes) {
    return add(tail_, tail_bytes_, std::move(name), bytes, bytes);
  }
  const std::vector<Field>& tail() const { return tail_; }
  std::size_t tail_bytes() const { return tail_bytes_; }  // of a token

  gpu::StateSizes sizes() const { return {.page_bytes = page_bytes_, .slot_bytes = slot_bytes_}; }
  const std::vector<Field>& per_token() const { return per_token_; }
  const std::vector<Field>& per_sequence() const { return per_sequence_; }

  /// A sequence whose layers keep nothing of their own can be restored at any token of its pages.
  bool attention_only() const { return slot_bytes_ == 0; }

 private:
  static constexpr std::size_t kAlignment = 64;

  static std::size_t add(std::vector<Field>& fields, std::size_t& total, std::string name, std::size_t bytes,
                         std::size_t region) {
    const std::size_t offset = total;
    total += (region + kAlignment - 1) / kAlignment * kAlignment;
    fields.push_back({std::move(name), bytes, offset});
    return offset;
  }

  std::vector<Field> per_token_;
  std::vector<Field> per_sequence_;
  std::vector<Field> tail_;
  std::size_t page_bytes_ = 0;
  std::size_t tail_bytes_ = 0;
  std::size_t slot_bytes_ = 0;
};

/// Of what `reprise inspect` prints: "attention heads", "32 query, 8 key/value, of 128".
struct PartSizes {
  std::string label;
  std::string sizes;

  auto operator<=>(const PartSizes&) const = default;
};

/// Why a GPU does not compute a scan with `size` numbers of state for each channel or column; nothing: it does.
inline std::optional<std::string> gpu_refusal_of_scan(const std::string& name, std::size_t size) {
  constexpr std::size_t kMost = gpu::kMostScanNumbers;
  if (size <= kMost) return std::nullopt;
  return name + ": a state size of " + std::to_string(size) + ", above " + std::to_string(kMost) + ",";
}

}  // namespace reprise::models

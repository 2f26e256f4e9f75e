#pragma once
// Building blocks for the descriptions of layer parts (attention, MLP, Mamba-2, ...). Each kind has a header
// in models/parts with
//   - its spec: sizes and options, independent of any device; `name` is the prefix of its tensor names;
//   - add_tensors(tensors, spec, block): appends its tensors in the order of use; `block` is the prefix of
//     the layer's GGUF names ("blk.3");
//   - declare_state(spec, state), or (spec, kv, state) if it has keys and values: reserves its state and
//     returns the offsets in a page or slot; absent if it has none;
//   - gpu_refusal(spec): what a GPU cannot compute, to be followed by "is not supported on a GPU yet", or
//     nullopt if it can;
//   - describe(spec): its sizes as `reprise inspect` prints them;
// and, if kernels need small tensors in another form, their loader. make_part() in models/cpu/part.h and
// models/cuda/part.h builds the computation.

#include <compare>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/gpu_limits.h"
#include "gpu/state/state_store.h"
#include "models/files/tensor_spec.h"

namespace reprise::models {

/// Type of a norm over rows, without its weights. RMSNorm: y = x / rms(x) * (offset + weight). Centered,
/// LayerNorm: y = (x - mean(x)) / deviation(x) * weight + bias.
struct NormKind {
  float offset = 0;  // 1 if the weights are stored minus 1
  float eps = 1e-6F;
  bool centered = false;  // LayerNorm: has a bias, no offset

  bool operator==(const NormKind&) const = default;
};

struct NormSpec {
  std::string name{};    // tensors `name`.weight and, if centered, `name`.bias, both [size]
  std::size_t size = 0;  // elements of a row
  NormKind kind{};

  bool operator==(const NormSpec&) const = default;
};

/// Builder for the list of a model's tensors, in the order of use. GGUF names are those of llama.cpp.
class TensorList {
 public:
  void add(TensorSpec spec) { specs_.push_back(std::move(spec)); }
  void add(std::string name, Shape shape, std::string gguf, const GgufLayout& layout = {}) {
    add({.name = std::move(name), .shape = std::move(shape), .gguf = {{std::move(gguf)}, {}, layout}});
  }

  /// Adds a matrix [rows, columns] and, if `bias`, its bias [rows]. Names exclude ".weight" and ".bias".
  void add_linear(const std::string& name, std::size_t rows, std::size_t columns, const std::string& gguf,
                  bool bias = false, const GgufLayout& layout = {}) {
    add(name + ".weight", {rows, columns}, gguf + ".weight", layout);
    if (bias) add(name + ".bias", {rows}, gguf + ".bias", layout);
  }

  /// Adds the weight of a norm and, if centered, its bias. `gguf` excludes ".weight". GGUF stores weights
  /// with offset 1 already added to the offset, which the layout undoes.
  void add_norm(const NormSpec& norm, const std::string& gguf) {
    GgufLayout layout;
    if (norm.kind.offset == 1) layout.values = GgufLayout::Values::kPlusOne;
    add(norm.name + ".weight", {norm.size}, gguf + ".weight", layout);
    if (norm.kind.centered) add(norm.name + ".bias", {norm.size}, gguf + ".bias");
  }

  /// Adds an alternative GGUF name for the last tensor.
  void also_called(std::string gguf) { specs_.back().gguf.names.push_back(std::move(gguf)); }

  TensorSpec& last() { return specs_.back(); }

  std::vector<TensorSpec> take() { return std::move(specs_); }

 private:
  std::vector<TensorSpec> specs_;
};

/// Assigns each part the offsets of its state within a KV page (per token) and a sequence's slot (per
/// sequence). Snapshots, pages and slots only know the totals.
///
/// The tail, rows of a prompt's last tokens kept until it is compacted (models/compaction.h), is not part of
/// the state: snapshots do not contain it, and a sequence restored from one has it only for tokens that it
/// computes itself.
class StateLayout {
 public:
  struct Field {
    std::string name;
    std::size_t bytes;   // per token or per sequence
    std::size_t offset;  // in the slot, or in the page, where it has kPageTokens * bytes
  };

  /// Reserves kPageTokens * bytes in each page; returns the offset. The part chooses the order inside.
  std::size_t add_per_token(std::string name, std::size_t bytes) {
    return add(per_token_, page_bytes_, std::move(name), bytes, bytes * gpu::kPageTokens);
  }

  /// Reserves `bytes` of the slot, zero when a sequence begins; returns the offset.
  std::size_t add_per_sequence(std::string name, std::size_t bytes) {
    return add(per_sequence_, slot_bytes_, std::move(name), bytes, bytes);
  }

  /// Reserves `bytes` of a row of the tail; returns the offset.
  std::size_t add_to_tail(std::string name, std::size_t bytes) {
    return add(tail_, tail_bytes_, std::move(name), bytes, bytes);
  }
  const std::vector<Field>& tail() const { return tail_; }
  std::size_t tail_bytes() const { return tail_bytes_; }  // per token

  gpu::StateSizes sizes() const { return {.page_bytes = page_bytes_, .slot_bytes = slot_bytes_}; }
  const std::vector<Field>& per_token() const { return per_token_; }
  const std::vector<Field>& per_sequence() const { return per_sequence_; }

  /// Returns whether no layer has per-sequence state; then any token is a checkpoint position.
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

/// A line of `reprise inspect`: "attention heads", "32 query, 8 key/value, of 128".
struct PartSizes {
  std::string label;
  std::string sizes;

  auto operator<=>(const PartSizes&) const = default;
};

/// Returns why a GPU cannot compute a scan with `size` state values per channel or column; nullopt: it can.
inline std::optional<std::string> gpu_refusal_of_scan(const std::string& name, std::size_t size) {
  constexpr std::size_t kMax = gpu::kMaxScanNumbers;
  if (size <= kMax) return std::nullopt;
  return name + ": a state size of " + std::to_string(size) + ", above " + std::to_string(kMax) + ",";
}

}  // namespace reprise::models

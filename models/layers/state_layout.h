#pragma once
// How the layers of a model lay out their state. Each layer declares what it keeps for each token and for
// each sequence and gets back where it stands; snapshots, pages and slots know the sums alone.
//
// What a layer has to remember of a prompt's last tokens alone, until the prompt is compacted (models/compaction.h), is no
// state: no snapshot carries it, and a sequence that goes on from one has it of the tokens that it computes itself.
//
// Threading: filled while a model is built, constant afterwards.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "gpu/state_store.h"

namespace reprise::models {

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

}  // namespace reprise::models

#pragma once
// The state of sequences, and snapshots of it.
//
// A model declares how many bytes of state it has for each token and for each sequence; what they mean is the
// layers' business. Per-token state lives in pages of kPageTokens tokens, reference counted, immutable once
// full; per-sequence state in one slot. A snapshot is references to the full pages, a copy of the tail page
// if there is one, and a copy of the slot; capture and restore copy both, for kernels update slots and tail
// pages in place. Neither touches its source.
//
// Lengths: `stored` counts places in pages, `logical` positions for rope; equal until a prompt is compacted.
//
// A snapshot knows the checksum of what was copied into it, slot and tail, and a restore that copies
// something else says so. Where the state can be cut (a slot of no bytes), a snapshot may be restored in
// part.
//
// Bounds: pages and slots are given at construction, and a budget of bytes that may be shared with other
// stores; what does not fit is refused with nothing changed. Where the bytes are there but the memory has no
// block for them, the budget is told.
// Blocks live in a BlockMemory, the host's or a device's, and are touched through it alone.
// Threading: one thread, the device worker's.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpu/block_memory.h"
#include "gpu/byte_budget.h"
#include "gpu/kernels.h"

namespace reprise::gpu {

using BlockId = std::uint32_t;

/// Equal blocks of memory by number: what pages and slots are made of.
///
/// A block has its memory from the first time it is taken. A free block keeps it for the next user, until
/// give_back() returns it to where it came from.
///
/// Threading: one thread (the device worker's). Addresses of live blocks may be read by others.
class BlockPool {
 public:
  /// `block_bytes` may be 0: then blocks are mere numbers. `memory` must outlive the pool.
  BlockPool(std::size_t block_bytes, std::size_t most_blocks, BlockMemory& memory);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// With one reference; its bytes are left over from earlier use. Nothing if is_full(), or if there is no
  /// memory for it.
  std::optional<BlockId> take();
  /// All are taken.
  bool is_full() const { return used() == most_; }
  /// Whether the next block taken has its memory already.
  bool next_is_resident() const { return !free_.empty(); }
  /// The memory of all free blocks; returns how many bytes that was.
  std::size_t give_back();
  void add_ref(BlockId block) { ++references_[block]; }
  /// Returns whether that was the last reference.
  bool release(BlockId block);
  std::uint32_t references(BlockId block) const { return references_[block]; }

  /// Null for blocks of no bytes.
  std::byte* data(BlockId block) const { return chunks_[block / kChunk][block % kChunk]; }
  std::size_t block_bytes() const { return block_bytes_; }
  std::size_t used() const { return references_.size() - free_.size() - cold_.size(); }
  std::size_t resident_bytes() const { return (references_.size() - cold_.size()) * block_bytes_; }
  std::size_t most() const { return most_; }

 private:
  void give(std::byte* address);
  std::byte*& address_of(BlockId block) { return chunks_[block / kChunk][block % kChunk]; }

  const std::size_t block_bytes_;
  const std::size_t most_;
  BlockMemory& memory_;
  // Of blocks that were ever taken.
  std::vector<std::uint32_t> references_;
  // Addresses by block. A chunk stays where it is, and so does their table.
  static constexpr std::size_t kChunk = 1024;
  std::vector<std::unique_ptr<std::byte*[]>> chunks_;
  std::vector<BlockId> free_;  // with their memory
  std::vector<BlockId> cold_;  // without
};

struct StateSizes {
  std::size_t page_bytes = 0;  // kPageTokens tokens of per-token state
  std::size_t slot_bytes = 0;  // per-sequence state
};

struct StateBounds {
  std::size_t pages = 0;
  std::size_t slots = 0;          // of sequences and snapshots together
  ByteBudget* budget = nullptr;   // none: pages and slots are the only bounds. Must outlive the store.
  BlockMemory* memory = nullptr;  // none: the host's. Must outlive the store.
};

class StateStore;

/// What sequences and snapshots have in common: blocks that they hold. Releases them when destroyed.
class HeldState {
 public:
  HeldState(HeldState&& other) noexcept;
  HeldState& operator=(HeldState&& other) noexcept;
  ~HeldState() { release(); }

  std::size_t stored() const { return stored_; }
  std::size_t logical() const { return logical_; }
  const std::vector<BlockId>& pages() const { return pages_; }
  BlockId slot() const { return slot_; }

 protected:
  friend class StateStore;
  explicit HeldState(StateStore& store, BlockId slot) : store_(&store), slot_(slot) {}
  void release();

  StateStore* store_;
  BlockId slot_;
  std::vector<BlockId> pages_;
  std::size_t stored_ = 0;
  std::size_t logical_ = 0;
};

class Snapshot : public HeldState {
 public:
  /// Bytes that would come free if it were dropped now: its slot, and pages that nobody else holds.
  std::size_t exclusive_bytes() const;
  /// Of its slot.
  bool finite() const { return slot_figures_.finite; }
  /// For a pass to write, between begin_capture() and end_captures(). The page that is not full: null where there is none.
  std::byte* slot_data() const;
  std::byte* tail_data() const;

 private:
  friend class StateStore;
  using HeldState::HeldState;

  CopyFigures slot_figures_;
  CopyFigures tail_figures_;
};

/// Pages of nobody's yet: for who writes a sequence's tokens anew, fewer of them. Releases what was not given away.
class PageRun {
 public:
  PageRun(PageRun&& other) noexcept;
  PageRun& operator=(PageRun&&) = delete;
  ~PageRun();

  std::size_t size() const { return pages_.size(); }
  std::byte* data(std::size_t index) const;

 private:
  friend class Sequence;
  friend class StateStore;
  explicit PageRun(StateStore& store) : store_(&store) {}

  StateStore* store_;
  std::vector<BlockId> pages_;
};

class Sequence : public HeldState {
 public:
  /// Makes room for `count` more tokens; false, with nothing changed, if there are not enough pages.
  [[nodiscard]] bool reserve(std::size_t count);
  /// After `count` tokens were computed into the reserved places.
  void advance(std::size_t count);
  /// These hold `stored` tokens of it, and take the place of its own. Its logical length stays.
  void replace_pages(PageRun pages, std::size_t stored);

  /// Addresses in the store's memory.
  std::byte* page_data(std::size_t index) const;
  /// Of its first pages, as many as `to` has places.
  void page_addresses(std::span<std::byte*> to) const;
  std::byte* slot_data() const;

 private:
  friend class StateStore;
  using HeldState::HeldState;
};

struct Restoration {
  std::optional<Sequence> sequence{};  // nothing: no room, or
  bool damaged = false;                // the snapshot is not what it was when it was taken
};

/// A sequence copied to the host, where it holds neither pages nor a slot.
struct SavedSequence {
  HostBytes bytes;
  std::size_t stored = 0;
  std::size_t logical = 0;
};

class StateStore {
 public:
  StateStore(const StateSizes& sizes, const StateBounds& bounds);
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  /// An empty sequence, its slot all zeros. Nothing if there is no slot.
  std::optional<Sequence> open();
  /// For so many tokens, all zeros. Nothing, with nothing changed, if there are not enough pages.
  std::optional<PageRun> take_pages(std::size_t tokens);
  /// Nothing if there is no slot or no page for the tail.
  std::optional<Snapshot> capture(const Sequence& sequence);
  /// A snapshot of the first `stored` tokens that the sequence will have, of what it has reserved, none of it
  /// compacted. Slot and tail are zeros until the pass that computes these tokens writes them; end_captures() follows. Nothing if
  /// there is no slot or no page for the tail.
  std::optional<Snapshot> begin_capture(const Sequence& sequence, std::size_t stored);
  /// Their slots and tails have been written.
  void end_captures(std::span<Snapshot* const> snapshots);
  /// `stored`: fewer tokens than the snapshot has, where there is no slot to say otherwise.
  Restoration restore(const Snapshot& snapshot) { return restore(snapshot, snapshot.stored()); }
  Restoration restore(const Snapshot& snapshot, std::size_t stored);

  /// Into host memory of the store's kind. Throws std::bad_alloc.
  SavedSequence save(const Sequence& sequence) const;
  std::optional<Sequence> load(const SavedSequence& saved);

  /// Checksum of a sequence's slot.
  CopyFigures look_at_slot(const Sequence& sequence) const;
  /// Breaks a snapshot, for tests of what follows.
  void damage(const Snapshot& snapshot);
  /// Breaks it so that its checksum does not tell.
  void damage_unseen(Snapshot& snapshot);
  /// Makes a sequence's slot and first page NaN, read as f32 or as bf16; for tests of what follows.
  void poison(const Sequence& sequence);

  const StateSizes& sizes() const { return sizes_; }
  BlockMemory& memory() const { return memory_; }
  std::size_t used_bytes() const;
  const BlockPool& pages() const { return pages_; }
  const BlockPool& slots() const { return slots_; }

 private:
  friend class HeldState;
  friend class PageRun;
  friend class Sequence;
  friend class Snapshot;

  // Tells the budget of a block that the memory did not have: last of all, because what the attempt gives
  // back on its way out changes nothing.
  class Attempt {
   public:
    explicit Attempt(StateStore& store) : store_(store), before_(store.refusals_) {}
    ~Attempt() {
      if (store_.refusals_ != before_) store_.budget_->note_fragmented(store_.refused_bytes_);
    }
    Attempt(const Attempt&) = delete;
    Attempt& operator=(const Attempt&) = delete;

   private:
    StateStore& store_;
    const std::uint64_t before_;
  };

  std::size_t saved_bytes(std::size_t stored) const;
  std::optional<BlockId> take(BlockPool& pool);
  /// Whether what take() gives next is zeros, and so need not be filled with them.
  bool next_is_clear(const BlockPool& pool) const;
  /// Until there are `wanted`; false, with nothing changed, if there are not enough. Zeros: what stands between and
  /// behind the tokens of a page is nobody else's; or whatever they held, for who writes all of them.
  enum class Fresh : bool { kZeros, kAnything };
  bool add_pages(std::vector<BlockId>& pages, std::size_t wanted, Fresh fresh = Fresh::kZeros);
  void release(BlockPool& pool, BlockId block);

  // Of `stored` tokens of `from`; nothing, with nothing changed, if there is no page for the tail.
  struct Copied {
    CopyFigures slot;
    CopyFigures tail;
  };
  std::optional<Copied> copy(const HeldState& from, std::size_t stored, HeldState& to);

  const StateSizes sizes_;
  ByteBudget* const budget_;
  BlockMemory& memory_;
  BlockPool pages_;
  BlockPool slots_;
  std::uint64_t refusals_ = 0;     // blocks within the budget that the memory did not have
  std::size_t refused_bytes_ = 0;  // of the last one
};

/// How many bytes a group of snapshots holds together: pages that several of them share count once.
///
/// Threading: one thread, the device worker's. The snapshots of a group are all of one store.
class SnapshotGroup {
 public:
  explicit SnapshotGroup(const StateSizes& sizes) : sizes_(sizes) {}

  void add(const Snapshot& snapshot) {
    bytes_ += growth(snapshot);
    for (const BlockId page : snapshot.pages()) ++holders_[page];
  }
  void remove(const Snapshot& snapshot) {
    for (const BlockId page : snapshot.pages()) {
      if (--holders_[page] == 0) bytes_ -= sizes_.page_bytes;
    }
    bytes_ -= sizes_.slot_bytes;
  }
  /// By how much bytes() would grow with this one.
  std::size_t growth(const Snapshot& snapshot) {
    std::size_t bytes = sizes_.slot_bytes;
    for (const BlockId page : snapshot.pages()) {
      if (page >= holders_.size()) holders_.resize(page + 1);
      if (holders_[page] == 0) bytes += sizes_.page_bytes;
    }
    return bytes;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  const StateSizes sizes_;
  std::vector<std::uint32_t> holders_;  // of each page, among the group
  std::size_t bytes_ = 0;
};

// States between a store and the host's memory, as bytes: pages in their order, then the slot. What tiers below the
// device keep.

/// Bytes of a whole state of that many tokens.
std::size_t transfer_bytes(const StateSizes& sizes, std::size_t stored);

/// Pages [first, first + count) of a snapshot, then its slot where that is wanted, into as many bytes.
void read_snapshot(const StateStore& store, const Snapshot& snapshot, std::size_t first, std::size_t count,
                   bool slot, std::span<std::byte> to);

/// A sequence of transfer_bytes() bytes from elsewhere, which `owner` keeps. Nothing if there is no room.
std::optional<Sequence> load_sequence(StateStore& store, std::span<const std::byte> bytes,
                                      const std::shared_ptr<const void>& owner, std::size_t stored,
                                      std::size_t logical);

}  // namespace reprise::gpu

#pragma once
// Stores the state of sequences and snapshots of it, in blocks of a BlockMemory (host or device).
//
// A model declares the bytes of state per token and per sequence; only its layers interpret them. Per-token
// state is in pages of kPageTokens tokens, which are reference counted and immutable once full; per-sequence
// state is in one slot. A snapshot references the full pages and has its own copies of the slot and of the
// partial last page (the tail), because kernels update these two in place. Capture and restore copy slot and
// tail, and do not change their source.
//
// Lengths: `stored` counts KV entries in pages, `logical` counts positions for RoPE. They are equal until a
// prompt is compacted.
//
// Every byte of a snapshot has a checksum: the slot, the tail, and each full page, which is summed when a
// snapshot first references it. restore() and is_intact() verify them; this reads the pages once, as each
// decode step does. Without per-sequence state (slot_bytes == 0) a prefix of a snapshot can be restored.
//
// Bounds: numbers of pages and slots, and a byte budget that stores can share. An operation that does not fit
// fails and changes nothing. If the budget has the bytes but the memory has no block, the store reports
// fragmentation to the budget. Threading: the device worker's thread only.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpu/kernels.h"
#include "gpu/state/block_memory.h"
#include "gpu/state/byte_budget.h"

namespace reprise::gpu {

using BlockId = std::uint32_t;

/// A pool of reference-counted blocks of one size: pages and slots.
///
/// A block's memory is allocated when the block is first taken. Free blocks keep their memory until
/// give_back().
///
/// Threading: the device worker's thread; other threads may read the addresses of live blocks.
class BlockPool {
 public:
  /// `block_bytes` may be 0: blocks then have ids but no memory. `memory` must outlive the pool.
  BlockPool(std::size_t block_bytes, std::size_t max_blocks, BlockMemory& memory);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// Returns a block with one reference and unspecified contents, or nullopt if is_full() or memory is
  /// exhausted.
  std::optional<BlockId> take();
  bool is_full() const { return used() == most_; }
  /// True if the next take() needs no new memory.
  bool next_is_resident() const { return !free_.empty(); }
  /// Frees the memory of all free blocks; returns its size.
  std::size_t give_back();
  void add_ref(BlockId block) { ++references_[block]; }
  /// Returns true if that was the last reference.
  bool release(BlockId block);
  std::uint32_t references(BlockId block) const { return references_[block]; }

  /// The block's address; null if block_bytes() is 0.
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
  std::vector<std::uint32_t> references_;  // by block id, for ids in use so far
  // Addresses by block id, in chunks. Neither the chunks nor the vector reallocate, so other threads can
  // read.
  static constexpr std::size_t kChunk = 1024;
  std::vector<std::unique_ptr<std::byte*[]>> chunks_;
  std::vector<BlockId> free_;  // free blocks that have memory
  std::vector<BlockId> cold_;  // free blocks without
};

struct StateSizes {
  std::size_t page_bytes = 0;  // per-token state of kPageTokens tokens
  std::size_t slot_bytes = 0;  // per-sequence state
};

struct StateBounds {
  std::size_t pages = 0;
  std::size_t slots = 0;          // for sequences and snapshots together
  ByteBudget* budget = nullptr;   // null: no byte limit. Must outlive the store.
  BlockMemory* memory = nullptr;  // null: host_memory(). Must outlive the store.
};

class StateStore;

/// Base of Sequence and Snapshot: references to blocks, released on destruction.
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
  /// Bytes that destroying this snapshot would free: its slot, and pages that only it references.
  std::size_t exclusive_bytes() const;
  /// True if the slot, read as f32, has no inf or NaN.
  bool finite() const { return slot_figures_.finite; }
  /// Addresses for a forward pass to write between begin_capture() and end_captures(). tail_data() is null if
  /// there is no partial page.
  std::byte* slot_data() const;
  std::byte* tail_data() const;

 private:
  friend class StateStore;
  using HeldState::HeldState;

  CopyFigures slot_figures_;
};

/// Newly allocated pages that no sequence owns: the target of a compaction. Frees the pages on destruction
/// unless they were passed to Sequence::replace_pages().
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
  /// Allocates pages for `count` more tokens. Returns false and changes nothing if there are not enough.
  [[nodiscard]] bool reserve(std::size_t count);
  /// Records that the state of `count` reserved tokens has been computed.
  void advance(std::size_t count);
  /// Replaces the pages by these, which hold `stored` KV entries. The logical length is unchanged.
  void replace_pages(PageRun pages, std::size_t stored);

  /// Address in the store's memory.
  std::byte* page_data(std::size_t index) const;
  /// Writes the addresses of the first to.size() pages.
  void page_addresses(std::span<std::byte*> to) const;
  std::byte* slot_data() const;

 private:
  friend class StateStore;
  using HeldState::HeldState;
};

struct Restoration {
  std::optional<Sequence> sequence{};  // nullopt: not enough memory, or damaged
  bool damaged = false;                // true: slot or pages do not match their checksums
};

/// The state of a sequence copied to host memory (swapped out); it holds neither pages nor a slot.
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

  /// Returns an empty sequence with a zeroed slot, or nullopt if there is no slot.
  std::optional<Sequence> open();
  /// Returns zeroed pages for `tokens` tokens, or nullopt, with nothing changed, if there are not enough
  /// pages.
  std::optional<PageRun> take_pages(std::size_t tokens);
  /// Returns nullopt if there is no slot, or no page for the tail.
  std::optional<Snapshot> capture(const Sequence& sequence);
  /// Starts a snapshot at position `stored`, ahead of the sequence, for the forward pass that computes up to
  /// it and beyond. The pass writes slot and tail, which are zero until then; call end_captures() after it.
  /// Requires: the pages up to `stored` are reserved and the sequence is not compacted. Returns nullopt if
  /// there is no slot, or no page for the tail.
  std::optional<Snapshot> begin_capture(const Sequence& sequence, std::size_t stored);
  /// Computes the checksums of snapshots from begin_capture(), whose slots and pages have been written.
  void end_captures(std::span<Snapshot* const> snapshots);
  Restoration restore(const Snapshot& snapshot) { return restore(snapshot, snapshot.stored()); }
  /// Restores the first `stored` KV entries. Requires: `stored` is the snapshot's own length, or shorter if
  /// slot_bytes is 0.
  Restoration restore(const Snapshot& snapshot, std::size_t stored);
  /// Returns false if pages [first, first + count) of a snapshot, or its slot if `slot`, do not match their
  /// checksums.
  bool is_intact(const Snapshot& snapshot, std::size_t first, std::size_t count, bool slot) const;

  /// Copies to host memory from BlockMemory::take_host(). Throws std::bad_alloc.
  SavedSequence save(const Sequence& sequence) const;
  /// Returns nullopt if there are not enough pages or no slot.
  std::optional<Sequence> load(const SavedSequence& saved);

  /// Checksum and finiteness of a sequence's slot.
  CopyFigures look_at_slot(const Sequence& sequence) const;

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

  // Reports a block that the memory did not have to the budget, at the end of the operation: blocks that the
  // failed operation gives back must not reset the report.
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
  /// True if the next block from take() is already zeroed.
  bool next_is_clear(const BlockPool& pool) const;
  /// Contents of added pages. kZeros: no data of earlier owners, in padding and unused entries either;
  /// kAnything: the caller overwrites whole pages.
  enum class Fresh : bool { kZeros, kAnything };
  /// Adds pages until there are `wanted`. Returns false and changes nothing if there are not enough.
  bool add_pages(std::vector<BlockId>& pages, std::size_t wanted, Fresh fresh = Fresh::kZeros);
  void release(BlockPool& pool, BlockId block);
  /// Computes the checksums of those of these pages that have none.
  void sum_pages(std::span<const BlockId> pages);
  bool pages_match(std::span<const BlockId> pages) const;

  struct Copied {
    CopyFigures slot;
    CopyFigures tail;
  };
  /// Copies the first `stored` KV entries and the slot. Returns nullopt, with nothing changed, if there is no
  /// page for the tail.
  std::optional<Copied> copy(const HeldState& from, std::size_t stored, HeldState& to);

  const StateSizes sizes_;
  ByteBudget* const budget_;
  BlockMemory& memory_;
  BlockPool pages_;
  BlockPool slots_;
  std::vector<std::optional<std::uint64_t>> page_sums_;  // by block id; nullopt: in no snapshot
  std::uint64_t refusals_ = 0;     // blocks within the budget that the memory did not have
  std::size_t refused_bytes_ = 0;  // size of the last refused block
};

/// Counts the bytes that a group of snapshots of one store holds; shared pages count once.
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
  /// Returns by how much add() would increase bytes().
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
  std::vector<std::uint32_t> holders_;  // snapshots of the group that hold each page
  std::size_t bytes_ = 0;
};

// -- the serialized form of a state in the tiers below the device: the pages in order, then the slot

/// Returns the bytes of a serialized state with `stored` KV entries.
std::size_t transfer_bytes(const StateSizes& sizes, std::size_t stored);

/// Copies pages [first, first + count) of a snapshot, and its slot if `slot`, into `to` of exactly that size.
void read_snapshot(const StateStore& store, const Snapshot& snapshot, std::size_t first, std::size_t count,
                   bool slot, std::span<std::byte> to);

/// Loads a sequence from transfer_bytes() bytes that `owner` keeps alive. Returns nullopt if it does not fit.
std::optional<Sequence> load_sequence(StateStore& store, std::span<const std::byte> bytes,
                                      const std::shared_ptr<const void>& owner, std::size_t stored,
                                      std::size_t logical);

}  // namespace reprise::gpu

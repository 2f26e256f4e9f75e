#include "gpu/state_store.h"

#include <cstring>
#include <utility>

#include "traces/check.h"

namespace reprise::gpu {

HeldState::HeldState(HeldState&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      slot_(other.slot_),
      pages_(std::move(other.pages_)),
      stored_(other.stored_),
      logical_(other.logical_) {}

HeldState& HeldState::operator=(HeldState&& other) noexcept {
  if (this != &other) {
    release();
    store_ = std::exchange(other.store_, nullptr);
    slot_ = other.slot_;
    pages_ = std::move(other.pages_);
    stored_ = other.stored_;
    logical_ = other.logical_;
  }
  return *this;
}

void HeldState::release() {
  if (store_ == nullptr) return;
  for (const BlockId page : pages_) store_->release(store_->pages_, page);
  store_->release(store_->slots_, slot_);
  pages_.clear();
  store_ = nullptr;
}

std::size_t Snapshot::exclusive_bytes() const {
  std::size_t bytes = store_->sizes_.slot_bytes;
  for (const BlockId page : pages_) {
    if (store_->pages_.references(page) == 1) bytes += store_->sizes_.page_bytes;
  }
  return bytes;
}

bool Sequence::reserve(std::size_t count) {
  const std::size_t wanted = (stored_ + count + kPageTokens - 1) / kPageTokens;
  const std::size_t before = pages_.size();
  while (pages_.size() < wanted) {
    const std::optional<BlockId> page = store_->take(store_->pages_);
    if (!page) {
      while (pages_.size() > before) {
        store_->release(store_->pages_, pages_.back());
        pages_.pop_back();
      }
      return false;
    }
    pages_.push_back(*page);
  }
  return true;
}

void Sequence::advance(std::size_t count) {
  stored_ += count;
  logical_ += count;
  REPRISE_CHECK(stored_ <= pages_.size() * kPageTokens, "a sequence advanced beyond what it had reserved");
}

std::byte* Sequence::page_data(std::size_t index) const {
  return store_->pages_.data(pages_[index]);
}
std::byte* Sequence::slot_data() const {
  return store_->slots_.data(slot_);
}

StateStore::StateStore(const StateSizes& sizes, const StateBounds& bounds)
    : sizes_(sizes),
      budget_(bounds.budget),
      pages_(sizes.page_bytes, bounds.pages),
      slots_(sizes.slot_bytes, bounds.slots) {
  if (budget_ != nullptr) budget_->add_trim(this, [this] { return pages_.give_back() + slots_.give_back(); });
}

StateStore::~StateStore() {
  if (budget_ == nullptr) return;
  budget_->remove_trim(this);
  budget_->shrink_resident(pages_.resident_bytes() + slots_.resident_bytes());
}

std::optional<BlockId> StateStore::take(BlockPool& pool) {
  if (budget_ != nullptr) {
    if (!budget_->take(pool.block_bytes())) return std::nullopt;
    if (!pool.next_is_resident()) budget_->grow_resident(pool.block_bytes());
  }
  const bool was_resident = pool.next_is_resident();
  const std::optional<BlockId> block = pool.take();
  if (!block && budget_ != nullptr) {
    budget_->give(pool.block_bytes());
    if (!was_resident) budget_->shrink_resident(pool.block_bytes());
  }
  return block;
}

void StateStore::release(BlockPool& pool, BlockId block) {
  if (pool.release(block) && budget_ != nullptr) budget_->give(pool.block_bytes());
}

std::optional<Sequence> StateStore::open() {
  const std::optional<BlockId> slot = take(slots_);
  if (!slot) return std::nullopt;
  if (sizes_.slot_bytes != 0) std::memset(slots_.data(*slot), 0, sizes_.slot_bytes);
  return Sequence(*this, *slot);
}

std::optional<StateStore::Copied> StateStore::copy(const HeldState& from, std::size_t stored, HeldState& to) {
  Copied copied;
  const std::size_t full = stored / kPageTokens;
  if (stored % kPageTokens != 0) {
    const std::optional<BlockId> page = take(pages_);
    if (!page) return std::nullopt;
    if (sizes_.page_bytes != 0) {
      copied.tail = checked_copy(pages_.data(*page), pages_.data(from.pages_[full]), sizes_.page_bytes);
    }
    to.pages_.push_back(*page);
  }
  to.pages_.insert(to.pages_.begin(), from.pages_.begin(),
                   from.pages_.begin() + static_cast<std::ptrdiff_t>(full));
  for (std::size_t i = 0; i < full; ++i) pages_.add_ref(from.pages_[i]);
  if (sizes_.slot_bytes != 0) {
    copied.slot = checked_copy(slots_.data(to.slot_), slots_.data(from.slot_), sizes_.slot_bytes);
  }
  to.logical_ = from.logical_ - (from.stored_ - stored);
  to.stored_ = stored;
  return copied;
}

std::optional<Snapshot> StateStore::capture(const Sequence& sequence) {
  const std::optional<BlockId> slot = take(slots_);
  if (!slot) return std::nullopt;
  Snapshot snapshot(*this, *slot);
  const std::optional<Copied> copied = copy(sequence, sequence.stored_, snapshot);
  if (!copied) return std::nullopt;
  snapshot.slot_figures_ = copied->slot;
  snapshot.tail_figures_ = copied->tail;
  return snapshot;
}

Restoration StateStore::restore(const Snapshot& snapshot, std::size_t stored) {
  REPRISE_CHECK(stored == snapshot.stored_ || (stored < snapshot.stored_ && sizes_.slot_bytes == 0),
                "a snapshot was cut that cannot be cut");
  const std::optional<BlockId> slot = take(slots_);
  if (!slot) return {};
  Sequence sequence(*this, *slot);
  const std::optional<Copied> copied = copy(snapshot, stored, sequence);
  if (!copied) return {};
  // The page that a cut copied from is summed only if it is the snapshot's own tail.
  const bool own_tail = stored % kPageTokens != 0 && snapshot.stored_ % kPageTokens != 0 &&
                        stored / kPageTokens == snapshot.stored_ / kPageTokens;
  if (copied->slot.checksum != snapshot.slot_figures_.checksum ||
      (own_tail && copied->tail.checksum != snapshot.tail_figures_.checksum)) {
    return {.sequence = std::nullopt, .damaged = true};
  }
  return {.sequence = std::move(sequence), .damaged = false};
}

SavedSequence StateStore::save(const Sequence& sequence) const {
  SavedSequence saved{.bytes = {}, .stored = sequence.stored_, .logical = sequence.logical_};
  const std::size_t used_pages = (sequence.stored_ + kPageTokens - 1) / kPageTokens;
  saved.bytes.resize(used_pages * sizes_.page_bytes + sizes_.slot_bytes);
  std::byte* to = saved.bytes.data();
  for (std::size_t i = 0; i < used_pages && sizes_.page_bytes != 0; ++i, to += sizes_.page_bytes) {
    std::memcpy(to, sequence.page_data(i), sizes_.page_bytes);
  }
  if (sizes_.slot_bytes != 0) std::memcpy(to, sequence.slot_data(), sizes_.slot_bytes);
  return saved;
}

std::optional<Sequence> StateStore::load(const SavedSequence& saved) {
  const std::optional<BlockId> slot = take(slots_);
  if (!slot) return std::nullopt;
  Sequence sequence(*this, *slot);
  if (!sequence.reserve(saved.stored)) return std::nullopt;
  sequence.stored_ = saved.stored;
  sequence.logical_ = saved.logical;
  const std::byte* from = saved.bytes.data();
  for (std::size_t i = 0; i < sequence.pages_.size() && sizes_.page_bytes != 0;
       ++i, from += sizes_.page_bytes) {
    std::memcpy(sequence.page_data(i), from, sizes_.page_bytes);
  }
  if (sizes_.slot_bytes != 0) std::memcpy(sequence.slot_data(), from, sizes_.slot_bytes);
  return sequence;
}

CopyFigures StateStore::look_at_slot(const Sequence& sequence) const {
  return sizes_.slot_bytes == 0 ? CopyFigures{} : look_at(sequence.slot_data(), sizes_.slot_bytes);
}

void StateStore::damage(const Snapshot& snapshot) {
  if (sizes_.slot_bytes != 0) {
    *slots_.data(snapshot.slot_) ^= std::byte{1};
  } else if (snapshot.stored_ % kPageTokens != 0 && sizes_.page_bytes != 0) {
    *pages_.data(snapshot.pages_.back()) ^= std::byte{1};
  }
}

std::size_t StateStore::used_bytes() const {
  return pages_.used() * sizes_.page_bytes + slots_.used() * sizes_.slot_bytes;
}

}  // namespace reprise::gpu

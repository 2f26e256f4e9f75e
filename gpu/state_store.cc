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
  for (const BlockId page : pages_) store_->pages_.release(page);
  store_->slots_.release(slot_);
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
    const std::optional<BlockId> page = store_->pages_.take();
    if (!page) {
      while (pages_.size() > before) {
        store_->pages_.release(pages_.back());
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
    : sizes_(sizes), pages_(sizes.page_bytes, bounds.pages), slots_(sizes.slot_bytes, bounds.slots) {}

std::optional<Sequence> StateStore::open() {
  const std::optional<BlockId> slot = slots_.take();
  if (!slot) return std::nullopt;
  if (sizes_.slot_bytes != 0) std::memset(slots_.data(*slot), 0, sizes_.slot_bytes);
  return Sequence(*this, *slot);
}

bool StateStore::copy(const HeldState& from, HeldState& to) {
  const std::size_t full = from.stored_ / kPageTokens;
  const std::size_t tail = from.stored_ % kPageTokens;
  if (tail != 0) {
    const std::optional<BlockId> page = pages_.take();
    if (!page) return false;
    if (sizes_.page_bytes != 0)
      std::memcpy(pages_.data(*page), pages_.data(from.pages_[full]), sizes_.page_bytes);
    to.pages_.push_back(*page);
  }
  to.pages_.insert(to.pages_.begin(), from.pages_.begin(),
                   from.pages_.begin() + static_cast<std::ptrdiff_t>(full));
  for (std::size_t i = 0; i < full; ++i) pages_.add_ref(from.pages_[i]);
  if (sizes_.slot_bytes != 0) std::memcpy(slots_.data(to.slot_), slots_.data(from.slot_), sizes_.slot_bytes);
  to.stored_ = from.stored_;
  to.logical_ = from.logical_;
  return true;
}

std::optional<Snapshot> StateStore::capture(const Sequence& sequence) {
  const std::optional<BlockId> slot = slots_.take();
  if (!slot) return std::nullopt;
  Snapshot snapshot(*this, *slot);
  if (!copy(sequence, snapshot)) return std::nullopt;
  return snapshot;
}

std::optional<Sequence> StateStore::restore(const Snapshot& snapshot) {
  const std::optional<BlockId> slot = slots_.take();
  if (!slot) return std::nullopt;
  Sequence sequence(*this, *slot);
  if (!copy(snapshot, sequence)) return std::nullopt;
  return sequence;
}

std::size_t StateStore::used_bytes() const {
  return pages_.used() * sizes_.page_bytes + slots_.used() * sizes_.slot_bytes;
}

}  // namespace reprise::gpu

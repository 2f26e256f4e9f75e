#include "gpu/state/state_store.h"

#include <array>
#include <utility>

#include "base/check.h"
#include "traces/trace.h"

namespace reprise::gpu {
namespace {

constexpr const char* kTraced = "state of sequences and snapshots";

}  // namespace

BlockPool::BlockPool(std::size_t block_bytes, std::size_t max_blocks, BlockMemory& memory)
    : block_bytes_(block_bytes), most_(max_blocks), memory_(memory) {
  chunks_.reserve(most_ / kChunk + 1);
}

BlockPool::~BlockPool() {
  for (BlockId block = 0; block < references_.size(); ++block) {
    if (std::byte* address = data(block)) give(address);
  }
}

void BlockPool::give(std::byte* address) {
  traces::freed(kTraced, address);
  memory_.give(address, block_bytes_);
}

std::optional<BlockId> BlockPool::take() {
  if (!free_.empty()) {
    const BlockId block = free_.back();
    free_.pop_back();
    references_[block] = 1;
    return block;
  }
  if (is_full()) return std::nullopt;
  std::byte* address = block_bytes_ == 0 ? nullptr : memory_.take(block_bytes_);
  if (address == nullptr && block_bytes_ != 0) return std::nullopt;
  if (address != nullptr) traces::allocated(kTraced, address, block_bytes_);
  if (cold_.empty()) {
    const auto block = static_cast<BlockId>(references_.size());
    if (block % kChunk == 0) chunks_.push_back(std::make_unique<std::byte*[]>(kChunk));
    address_of(block) = address;
    references_.push_back(1);
    return block;
  }
  const BlockId block = cold_.back();
  cold_.pop_back();
  references_[block] = 1;
  address_of(block) = address;
  return block;
}

bool BlockPool::release(BlockId block) {
  REPRISE_CHECK(block < references_.size() && references_[block] > 0,
                "a block was released more often than it was taken");
  if (--references_[block] > 0) return false;
  free_.push_back(block);
  return true;
}

std::size_t BlockPool::give_back() {
  const std::size_t bytes = free_.size() * block_bytes_;
  for (const BlockId block : free_) {
    if (std::byte* address = std::exchange(address_of(block), nullptr)) give(address);
    cold_.push_back(block);
  }
  free_.clear();
  return bytes;
}

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

std::byte* Snapshot::slot_data() const {
  return store_->slots_.data(slot_);
}

std::byte* Snapshot::tail_data() const {
  const bool has_tail = stored_ % kPageTokens != 0 && store_->sizes_.page_bytes != 0;
  return has_tail ? store_->pages_.data(pages_.back()) : nullptr;
}

PageRun::PageRun(PageRun&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)), pages_(std::move(other.pages_)) {}

PageRun::~PageRun() {
  if (store_ == nullptr) return;
  for (const BlockId page : pages_) store_->release(store_->pages_, page);
}

std::byte* PageRun::data(std::size_t index) const {
  return store_->pages_.data(pages_[index]);
}

bool Sequence::reserve(std::size_t count) {
  const std::size_t wanted = (stored_ + count + kPageTokens - 1) / kPageTokens;
  return wanted <= pages_.size() || store_->add_pages(pages_, wanted);
}

void Sequence::replace_pages(PageRun pages, std::size_t stored) {
  REPRISE_CHECK(pages.store_ == store_ && stored <= pages.size() * kPageTokens && stored <= stored_,
                "the replacement pages do not hold the sequence's KV entries");
  pages_.swap(pages.pages_);  // the destructor of `pages` releases the old ones
  stored_ = stored;
}

void Sequence::advance(std::size_t count) {
  stored_ += count;
  logical_ += count;
  REPRISE_CHECK(stored_ <= pages_.size() * kPageTokens, "a sequence advanced beyond what it had reserved");
}

std::byte* Sequence::page_data(std::size_t index) const {
  return store_->pages_.data(pages_[index]);
}
void Sequence::page_addresses(std::span<std::byte*> to) const {
  REPRISE_CHECK(to.size() <= pages_.size(), "more page addresses were requested than the sequence has pages");
  const BlockPool& pool = store_->pages_;
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = pool.data(pages_[i]);
}
std::byte* Sequence::slot_data() const {
  return store_->slots_.data(slot_);
}

StateStore::StateStore(const StateSizes& sizes, const StateBounds& bounds)
    : sizes_(sizes),
      budget_(bounds.budget),
      memory_(bounds.memory != nullptr ? *bounds.memory : host_memory()),
      pages_(sizes.page_bytes, bounds.pages, memory_),
      slots_(sizes.slot_bytes, bounds.slots, memory_) {
  if (budget_ != nullptr) budget_->add_trim(this, [this] { return pages_.give_back() + slots_.give_back(); });
}

StateStore::~StateStore() {
  if (budget_ == nullptr) return;
  budget_->remove_trim(this);
  budget_->shrink_resident(pages_.resident_bytes() + slots_.resident_bytes());
}

std::optional<BlockId> StateStore::take(BlockPool& pool) {
  if (budget_ == nullptr) return pool.take();
  const std::size_t bytes = pool.block_bytes();
  if (pool.is_full() || !budget_->take(bytes)) return std::nullopt;
  if (pool.next_is_resident()) return pool.take();
  budget_->grow_resident(bytes);
  std::optional<BlockId> block = pool.take();
  if (!block) {  // free blocks of other pools may occupy the memory
    budget_->trim();
    block = pool.take();
  }
  if (!block) {
    budget_->shrink_resident(bytes);
    budget_->give(bytes);
    ++refusals_;
    refused_bytes_ = bytes;
  }
  return block;
}

// Freshly mapped memory is already zero; not touching it here leaves its page faults to the compute threads.
bool StateStore::next_is_clear(const BlockPool& pool) const {
  return pool.block_bytes() == 0 || (!pool.next_is_resident() && memory_.gives_zeros(pool.block_bytes()));
}

void StateStore::release(BlockPool& pool, BlockId block) {
  if (!pool.release(block)) return;
  if (&pool == &pages_ && block < page_sums_.size()) page_sums_[block].reset();
  if (budget_ != nullptr) budget_->give(pool.block_bytes());
}

void StateStore::sum_pages(std::span<const BlockId> pages) {
  if (sizes_.page_bytes == 0) return;
  std::vector<BlockId> unsummed;
  std::vector<const std::byte*> blocks;
  for (const BlockId page : pages) {
    if (page >= page_sums_.size()) page_sums_.resize(page + 1);
    if (page_sums_[page]) continue;
    unsummed.push_back(page);
    blocks.push_back(pages_.data(page));
  }
  if (blocks.empty()) return;
  std::vector<CopyFigures> figures(blocks.size());
  memory_.look_at_all(blocks, sizes_.page_bytes, figures);
  for (std::size_t i = 0; i < blocks.size(); ++i) page_sums_[unsummed[i]] = figures[i].checksum;
}

bool StateStore::pages_match(std::span<const BlockId> pages) const {
  if (sizes_.page_bytes == 0 || pages.empty()) return true;
  std::vector<const std::byte*> blocks;
  for (const BlockId page : pages) blocks.push_back(pages_.data(page));
  std::vector<CopyFigures> figures(blocks.size());
  memory_.look_at_all(blocks, sizes_.page_bytes, figures);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (page_sums_[pages[i]] != figures[i].checksum) return false;
  }
  return true;
}

std::optional<Sequence> StateStore::open() {
  const Attempt attempt(*this);
  const bool is_clear = next_is_clear(slots_);
  const std::optional<BlockId> slot = take(slots_);
  if (!slot) return std::nullopt;
  Sequence sequence(*this, *slot);
  if (!is_clear) memory_.fill(sequence.slot_data(), 0, sizes_.slot_bytes);
  return sequence;
}

bool StateStore::add_pages(std::vector<BlockId>& pages, std::size_t wanted, Fresh fresh) {
  const Attempt attempt(*this);
  const std::size_t before = pages.size();
  std::vector<std::byte*> used;
  while (pages.size() < wanted) {
    const bool is_clear = next_is_clear(pages_);
    const std::optional<BlockId> page = take(pages_);
    if (!page) {
      while (pages.size() > before) {
        release(pages_, pages.back());
        pages.pop_back();
      }
      return false;
    }
    pages.push_back(*page);
    if (!is_clear) used.push_back(pages_.data(*page));
  }
  if (fresh != Fresh::kAnything && !used.empty()) memory_.fill_all(used, 0, sizes_.page_bytes);
  return true;
}

std::optional<PageRun> StateStore::take_pages(std::size_t tokens) {
  PageRun run(*this);
  if (!add_pages(run.pages_, (tokens + kPageTokens - 1) / kPageTokens)) return std::nullopt;
  return run;
}

std::optional<StateStore::Copied> StateStore::copy(const HeldState& from, std::size_t stored, HeldState& to) {
  const std::size_t full = stored / kPageTokens;
  const bool has_tail = stored % kPageTokens != 0;
  if (has_tail) {
    const std::optional<BlockId> page = take(pages_);
    if (!page) return std::nullopt;
    to.pages_.push_back(*page);
  }
  to.pages_.insert(to.pages_.begin(), from.pages_.begin(),
                   from.pages_.begin() + static_cast<std::ptrdiff_t>(full));
  for (std::size_t i = 0; i < full; ++i) pages_.add_ref(from.pages_[i]);
  to.logical_ = from.logical_ - (from.stored_ - stored);
  to.stored_ = stored;

  Copied copied;
  std::array<BlockMemory::Copy, 2> copies;
  std::array<CopyFigures, 2> figures;
  std::array<CopyFigures*, 2> wanted;
  std::size_t count = 0;
  const auto add = [&](const BlockPool& pool, BlockId into, BlockId source, CopyFigures& result) {
    if (pool.block_bytes() == 0) return;
    copies[count] = {.to = pool.data(into), .from = pool.data(source), .bytes = pool.block_bytes()};
    wanted[count++] = &result;
  };
  add(slots_, to.slot_, from.slot_, copied.slot);
  if (has_tail) add(pages_, to.pages_[full], from.pages_[full], copied.tail);
  if (count > 0) memory_.copy({copies.data(), count}, {figures.data(), count});
  for (std::size_t i = 0; i < count; ++i) *wanted[i] = figures[i];
  return copied;
}

std::optional<Snapshot> StateStore::capture(const Sequence& sequence) {
  const Attempt attempt(*this);
  const std::optional<BlockId> slot = take(slots_);
  if (!slot) return std::nullopt;
  Snapshot snapshot(*this, *slot);
  const std::optional<Copied> copied = copy(sequence, sequence.stored_, snapshot);
  if (!copied) return std::nullopt;
  snapshot.slot_figures_ = copied->slot;
  sum_pages(snapshot.pages_);
  return snapshot;
}

std::optional<Snapshot> StateStore::begin_capture(const Sequence& sequence, std::size_t stored) {
  const std::size_t full = stored / kPageTokens;
  const bool has_tail = stored % kPageTokens != 0;
  REPRISE_CHECK(full + (has_tail ? 1 : 0) <= sequence.pages_.size() && stored > sequence.stored_ &&
                    sequence.stored_ == sequence.logical_,
                "a snapshot was started at a position that the sequence is not about to pass");
  const Attempt attempt(*this);
  const bool slot_is_clear = next_is_clear(slots_);
  const std::optional<BlockId> slot = take(slots_);
  if (!slot) return std::nullopt;
  Snapshot snapshot(*this, *slot);
  if (has_tail) {
    const bool page_is_clear = next_is_clear(pages_);
    const std::optional<BlockId> page = take(pages_);
    if (!page) return std::nullopt;
    snapshot.pages_.push_back(*page);
    if (!page_is_clear) memory_.fill(pages_.data(*page), 0, sizes_.page_bytes);
  }
  if (!slot_is_clear) memory_.fill(snapshot.slot_data(), 0, sizes_.slot_bytes);
  for (std::size_t i = 0; i < full; ++i) pages_.add_ref(sequence.pages_[i]);
  snapshot.pages_.insert(snapshot.pages_.begin(), sequence.pages_.begin(),
                         sequence.pages_.begin() + static_cast<std::ptrdiff_t>(full));
  snapshot.stored_ = snapshot.logical_ = stored;
  return snapshot;
}

void StateStore::end_captures(std::span<Snapshot* const> snapshots) {
  std::vector<const std::byte*> slots;
  for (Snapshot* one : snapshots) {
    if (sizes_.slot_bytes != 0) slots.push_back(one->slot_data());
    sum_pages(one->pages_);
  }
  if (slots.empty()) return;
  std::vector<CopyFigures> figures(slots.size());
  memory_.look_at_all(slots, sizes_.slot_bytes, figures);
  for (std::size_t i = 0; i < slots.size(); ++i) snapshots[i]->slot_figures_ = figures[i];
}

Restoration StateStore::restore(const Snapshot& snapshot, std::size_t stored) {
  REPRISE_CHECK(stored == snapshot.stored_ || (stored < snapshot.stored_ && sizes_.slot_bytes == 0),
                "a snapshot with recurrent state was restored at another length than its own");
  const Attempt attempt(*this);
  const std::optional<BlockId> slot = take(slots_);
  if (!slot) return {};
  Sequence sequence(*this, *slot);
  const std::optional<Copied> copied = copy(snapshot, stored, sequence);
  if (!copied) return {};
  const std::size_t full = stored / kPageTokens;
  // A shortened restore may copy its tail from a full page.
  const bool has_tail = stored % kPageTokens != 0 && sizes_.page_bytes != 0;
  if (copied->slot.checksum != snapshot.slot_figures_.checksum ||
      (has_tail && page_sums_[snapshot.pages_[full]] != copied->tail.checksum) ||
      !pages_match(std::span(snapshot.pages_).first(full))) {
    return {.sequence = std::nullopt, .damaged = true};
  }
  return {.sequence = std::move(sequence), .damaged = false};
}

bool StateStore::is_intact(const Snapshot& snapshot, std::size_t first, std::size_t count, bool slot) const {
  if (slot && sizes_.slot_bytes != 0 &&
      memory_.look_at(snapshot.slot_data(), sizes_.slot_bytes).checksum != snapshot.slot_figures_.checksum) {
    return false;
  }
  return pages_match(std::span(snapshot.pages_).subspan(first, count));
}

std::size_t StateStore::saved_bytes(std::size_t stored) const {
  return (stored + kPageTokens - 1) / kPageTokens * sizes_.page_bytes + sizes_.slot_bytes;
}

SavedSequence StateStore::save(const Sequence& sequence) const {
  SavedSequence saved{.bytes = memory_.take_host(saved_bytes(sequence.stored_)),
                      .stored = sequence.stored_,
                      .logical = sequence.logical_};
  std::vector<BlockMemory::Copy> copies;
  std::byte* to = saved.bytes.span().data();
  for (std::size_t i = 0; i * kPageTokens < sequence.stored_ && sizes_.page_bytes != 0; ++i) {
    copies.push_back({.to = to, .from = sequence.page_data(i), .bytes = sizes_.page_bytes});
    to += sizes_.page_bytes;
  }
  if (sizes_.slot_bytes != 0) {
    copies.push_back({.to = to, .from = sequence.slot_data(), .bytes = sizes_.slot_bytes});
  }
  memory_.to_host(copies);
  return saved;
}

std::optional<Sequence> StateStore::load(const SavedSequence& saved) {
  const Attempt attempt(*this);
  const std::optional<BlockId> slot = take(slots_);
  if (!slot) return std::nullopt;
  Sequence sequence(*this, *slot);
  const std::size_t pages = (saved.stored + kPageTokens - 1) / kPageTokens;
  if (!add_pages(sequence.pages_, pages, Fresh::kAnything)) return std::nullopt;
  sequence.stored_ = saved.stored;
  sequence.logical_ = saved.logical;
  REPRISE_CHECK(saved.bytes.size() == saved_bytes(saved.stored),
                "the saved sequence has another size than its state needs");
  std::vector<BlockMemory::Copy> copies;
  const std::byte* from = saved.bytes.span().data();
  for (std::size_t i = 0; i < sequence.pages_.size() && sizes_.page_bytes != 0; ++i) {
    copies.push_back({.to = sequence.page_data(i), .from = from, .bytes = sizes_.page_bytes});
    from += sizes_.page_bytes;
  }
  if (sizes_.slot_bytes != 0) {
    copies.push_back({.to = sequence.slot_data(), .from = from, .bytes = sizes_.slot_bytes});
  }
  memory_.from_host(copies);
  return sequence;
}

CopyFigures StateStore::look_at_slot(const Sequence& sequence) const {
  return sizes_.slot_bytes == 0 ? CopyFigures{} : memory_.look_at(sequence.slot_data(), sizes_.slot_bytes);
}

std::size_t StateStore::used_bytes() const {
  return pages_.used() * sizes_.page_bytes + slots_.used() * sizes_.slot_bytes;
}

std::size_t transfer_bytes(const StateSizes& sizes, std::size_t stored) {
  return (stored + kPageTokens - 1) / kPageTokens * sizes.page_bytes + sizes.slot_bytes;
}

void read_snapshot(const StateStore& store, const Snapshot& snapshot, std::size_t first, std::size_t count,
                   bool slot, std::span<std::byte> to) {
  const StateSizes& sizes = store.sizes();
  REPRISE_CHECK(first + count <= snapshot.pages().size() &&
                    to.size() == count * sizes.page_bytes + (slot ? sizes.slot_bytes : 0),
                "pages were read that the snapshot does not have, or into a buffer of another size");
  std::vector<BlockMemory::Copy> copies;
  std::byte* at = to.data();
  for (std::size_t i = first; i < first + count && sizes.page_bytes != 0; ++i) {
    copies.push_back({.to = at, .from = store.pages().data(snapshot.pages()[i]), .bytes = sizes.page_bytes});
    at += sizes.page_bytes;
  }
  if (slot && sizes.slot_bytes != 0) {
    copies.push_back({.to = at, .from = store.slots().data(snapshot.slot()), .bytes = sizes.slot_bytes});
  }
  if (!copies.empty()) store.memory().to_host(copies);
}

std::optional<Sequence> load_sequence(StateStore& store, std::span<const std::byte> bytes,
                                      const std::shared_ptr<const void>& owner, std::size_t stored,
                                      std::size_t logical) {
  REPRISE_CHECK(bytes.size() == transfer_bytes(store.sizes(), stored),
                "the loaded bytes are not the size of the state");
  // load() only reads the bytes; HostBytes has no const form.
  auto* data = const_cast<std::byte*>(bytes.data());
  const std::shared_ptr<std::byte> held(std::const_pointer_cast<void>(owner), data);
  return store.load({.bytes = HostBytes(held, bytes.size()), .stored = stored, .logical = logical});
}

}  // namespace reprise::gpu

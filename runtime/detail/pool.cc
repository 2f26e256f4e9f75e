#include "runtime/detail/pool.h"

#include <array>
#include <mutex>
#include <new>

#include "traces/trace.h"

#if defined(__SANITIZE_ADDRESS__)
#define REPRISE_POOL_BYPASS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define REPRISE_POOL_BYPASS 1
#endif
#endif

namespace reprise::runtime {

#if defined(REPRISE_POOL_BYPASS)

void* pool_allocate(std::size_t size) {
  return ::operator new(size);
}
void pool_free(void* block, std::size_t) noexcept {
  ::operator delete(block);
}

#else

namespace {

constexpr std::size_t kClasses = kMaxPooled / kPoolGranule;
constexpr unsigned kKeptPerClass = 512;
constexpr unsigned kBatch = kKeptPerClass / 2;
constexpr unsigned kCentralBatches = 256;

struct FreeBlock {
  FreeBlock* next;
  FreeBlock* next_batch;  // valid in the first block of a batch in the central store
};

std::size_t class_of(std::size_t size) {
  return (size - 1) / kPoolGranule;
}
std::size_t class_bytes(std::size_t size_class) {
  return (size_class + 1) * kPoolGranule;
}

void* system_allocate(std::size_t size_class) {
  return ::operator new (class_bytes(size_class), std::align_val_t{kPoolGranule});
}
void system_free(void* block) {
  ::operator delete (block, std::align_val_t{kPoolGranule});
}

void free_chain(FreeBlock* chain) {
  while (chain != nullptr) {
    FreeBlock* next = chain->next;
    system_free(chain);
    chain = next;
  }
}

/// Stores batches of kBatch blocks by class. A thread comes here once per kBatch operations, so a mutex
/// suffices.
class CentralStore {
 public:
  void put(std::size_t size_class, FreeBlock* batch) {
    {
      std::lock_guard lock(mutex_);
      Shelf& shelf = shelves_[size_class];
      if (shelf.batches < kCentralBatches) {
        batch->next_batch = shelf.first;
        shelf.first = batch;
        ++shelf.batches;
        return;
      }
    }
    free_chain(batch);
  }

  FreeBlock* take(std::size_t size_class) {
    std::lock_guard lock(mutex_);
    Shelf& shelf = shelves_[size_class];
    FreeBlock* batch = shelf.first;
    if (batch != nullptr) {
      shelf.first = batch->next_batch;
      --shelf.batches;
    }
    return batch;
  }

 private:
  struct Shelf {
    FreeBlock* first = nullptr;
    unsigned batches = 0;
  };
  static constexpr traces::ZoneSite kLock{"lock: free blocks of messages and frames"};
  traces::Mutex mutex_{kLock};
  std::array<Shelf, kClasses> shelves_{};
};

CentralStore& central() {
  static CentralStore* store =
      new CentralStore;  // never destroyed: blocks are freed during static destruction
  return *store;
}

struct ThreadCache {
  struct List {
    FreeBlock* first = nullptr;
    unsigned count = 0;
  };
  std::array<List, kClasses> lists{};

  ~ThreadCache();
};

enum class CacheState : unsigned char { kUnborn, kAlive, kDead };
// Trivial, so it can be read while other thread_local objects of the thread are destroyed.
thread_local CacheState cache_state = CacheState::kUnborn;
thread_local ThreadCache* cache = nullptr;

ThreadCache::~ThreadCache() {
  cache_state = CacheState::kDead;
  cache = nullptr;
  for (List& list : lists) free_chain(list.first);
}

ThreadCache* open_cache() {
  if (cache_state == CacheState::kDead) return nullptr;
  static thread_local ThreadCache instance;
  cache_state = CacheState::kAlive;
  cache = &instance;
  return cache;
}

[[gnu::noinline]] void* allocate_slow(std::size_t size_class) {
  ThreadCache* mine = cache != nullptr ? cache : open_cache();
  if (mine == nullptr) return system_allocate(size_class);
  ThreadCache::List& list = mine->lists[size_class];
  if (list.first == nullptr) {
    list.first = central().take(size_class);
    if (list.first == nullptr) return system_allocate(size_class);
    list.count = kBatch;
  }
  FreeBlock* block = list.first;
  list.first = block->next;
  --list.count;
  return block;
}

[[gnu::noinline]] void free_slow(FreeBlock* block, std::size_t size_class) {
  ThreadCache* mine = cache != nullptr ? cache : open_cache();
  if (mine == nullptr) return system_free(block);
  ThreadCache::List& list = mine->lists[size_class];
  if (list.count == kKeptPerClass) {
    FreeBlock* batch = list.first;
    FreeBlock* last = batch;
    for (unsigned i = 1; i < kBatch; ++i) last = last->next;
    list.first = last->next;
    list.count -= kBatch;
    last->next = nullptr;
    central().put(size_class, batch);
  }
  block->next = list.first;
  list.first = block;
  ++list.count;
}

}  // namespace

void* pool_allocate(std::size_t size) {
  if (size > kMaxPooled) return ::operator new(size);
  const std::size_t size_class = class_of(size);
  if (cache != nullptr) {
    ThreadCache::List& list = cache->lists[size_class];
    if (FreeBlock* block = list.first) {
      list.first = block->next;
      --list.count;
      return block;
    }
  }
  return allocate_slow(size_class);
}

void pool_free(void* memory, std::size_t size) noexcept {
  if (size > kMaxPooled) return ::operator delete(memory);
  const std::size_t size_class = class_of(size);
  auto* block = static_cast<FreeBlock*>(memory);
  if (cache != nullptr) {
    ThreadCache::List& list = cache->lists[size_class];
    if (list.count < kKeptPerClass) {
      block->next = list.first;
      list.first = block;
      ++list.count;
      return;
    }
  }
  free_slow(block, size_class);
}

#endif

}  // namespace reprise::runtime

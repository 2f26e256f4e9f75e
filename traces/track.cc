#include "traces/track.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "traces/trace.h"

namespace reprise::traces {
namespace {

// Exported tables have numbers for tracks, so a zone at the beginning of each track carries its name.
constexpr ZoneSite kIntroduction{"track"};

thread_local const Track* current_track = nullptr;

}  // namespace

/// Never destroyed: names are never freed, and threads may end after main().
struct TrackTable {
  std::mutex mutex;
  std::unordered_map<std::string, std::vector<std::unique_ptr<Track>>> by_name;
  std::size_t tracks = 0;

  static TrackTable& instance() {
    static auto* table = new TrackTable;
    return *table;
  }

  Track* borrow(const char* name) {
    const std::lock_guard lock(mutex);
    if (tracks == Track::kMaxTracks && !by_name.contains(name)) return nullptr;
    auto& own = by_name[name];
    for (const auto& track : own) {
      if (!std::exchange(track->lent_, true)) return track.get();
    }
    if (own.size() == Track::kMaxOfAName || tracks == Track::kMaxTracks) return nullptr;
    std::string numbered = name;
    if (!own.empty()) numbered += ' ' + std::to_string(own.size());
    own.push_back(std::unique_ptr<Track>(new Track(std::move(numbered))));
    own.back()->lent_ = true;
    ++tracks;
    return own.back().get();
  }

  void give_back(Track& track) {
    const std::lock_guard lock(mutex);
    track.lent_ = false;
  }
};

Track* Track::borrow(const char* name) {
  return TrackTable::instance().borrow(name);
}

void Track::give_back(Track* track) {
  if (track != nullptr) TrackTable::instance().give_back(*track);
}

// Not inlined: a coroutine must not keep the address of a thread_local across a suspension.
[[gnu::noinline]] const Track* Track::current() {
  return current_track;
}

TrackScope::TrackScope(Track* track) : outer_(std::exchange(current_track, track)) {
  if (track == nullptr || !profiler::connected()) return;
  connection_ = profiler::connection();
  profiler::enter_fiber(track->name());
  if (profiler::kHasTracks && std::exchange(track->introduced_, connection_) != connection_) {
    profiler::Zone(kIntroduction).text(track->name());
  }
}

// If the scope is nested in another actor's turn (an executor that helps while it waits), the outer track
// continues.
TrackScope::~TrackScope() {
  current_track = outer_;
  if (connection_ == 0 || connection_ != profiler::connection()) return;
  if (outer_ != nullptr) {
    profiler::enter_fiber(outer_->name());
  } else {
    profiler::leave_fiber();
  }
}

}  // namespace reprise::traces

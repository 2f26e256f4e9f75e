#pragma once
// Tracks: trace lines of actors, one zone per turn. A profiler identifies a track by the pointer to its name
// and shows one activity at a time, so each track belongs to one actor at a time, until it ends. Of actors
// with the same name the first gets the track "request", the next "request 1", and so on.
//
// Bound: kMaxOfAName tracks per name, kMaxTracks in total; other actors use their thread's line. Names are
// never freed. Threading: any thread; one thread at a time may be in a track.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace reprise::traces {

class Track {
 public:
  static constexpr std::size_t kMaxOfAName = 64;
  static constexpr std::size_t kMaxTracks = 4096;

  /// Returns the lowest free track for `name`, which must never be freed; null if none is left.
  static Track* borrow(const char* name);
  /// `track` may be null.
  static void give_back(Track* track);

  const char* name() const { return name_.c_str(); }
  /// Name of the plot of the actor's mailbox.
  const char* mailbox() const { return mailbox_.c_str(); }

  /// Returns the track of this thread; null: the thread's own line.
  static const Track* current();

 private:
  friend class TrackScope;
  friend struct TrackTable;
  explicit Track(std::string name) : name_(std::move(name)), mailbox_("mailbox of " + name_) {}

  const std::string name_;
  const std::string mailbox_;
  bool lent_ = false;             // guarded by TrackTable::mutex
  std::uint64_t introduced_ = 0;  // profiler connection that knows the name; used by the thread in the track
};

/// Makes `track` (null: the thread's own line) current on this thread for its lifetime.
class TrackScope {
 public:
  explicit TrackScope(Track* track);
  ~TrackScope();
  TrackScope(const TrackScope&) = delete;
  TrackScope& operator=(const TrackScope&) = delete;

 private:
  const Track* outer_;
  std::uint64_t connection_ = 0;  // profiler connection that was told of the scope; 0: none
};

}  // namespace reprise::traces

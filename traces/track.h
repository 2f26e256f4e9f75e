#pragma once
// Tracks: the lines of a trace on which actors are drawn, one zone a turn. A profiler knows a track by the pointer
// of its name and draws one thing at a time on it, so a track belongs to one actor at a time, and tracks are few:
// of the actors of one name the first has the track "request", the next "request 1", and so on, each until it ends.
//
// Bound: kMostOfAName tracks a name, kMostTracks in all; an actor that finds none free is drawn on its thread's
// line. Names live for ever.
// Threading: any thread. A track is entered by one thread at a time.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace reprise::traces {

class Track {
 public:
  static constexpr std::size_t kMostOfAName = 64;
  static constexpr std::size_t kMostTracks = 4096;

  /// The lowest free one of that name; null: none is left. `name` lives for ever.
  static Track* borrow(const char* name);
  /// Null is allowed.
  static void give_back(Track* track);

  const char* name() const { return name_.c_str(); }
  /// Of the plot of its actor's mailbox.
  const char* mailbox() const { return mailbox_.c_str(); }

  /// The track that this thread draws on; null: its own line.
  static const Track* current();

 private:
  friend class TrackScope;
  friend struct TrackTable;
  explicit Track(std::string name) : name_(std::move(name)), mailbox_("mailbox of " + name_) {}

  const std::string name_;
  const std::string mailbox_;
  bool lent_ = false;             // under the table's lock
  std::uint64_t introduced_ = 0;  // the profiler's connection that was told its name; of whoever is on it
};

/// This thread draws on `track` (null: on its own line) until the scope ends.
class TrackScope {
 public:
  explicit TrackScope(Track* track);
  ~TrackScope();
  TrackScope(const TrackScope&) = delete;
  TrackScope& operator=(const TrackScope&) = delete;

 private:
  const Track* outer_;
  std::uint64_t connection_ = 0;  // in which a profiler was told of it; 0: none was
};

}  // namespace reprise::traces

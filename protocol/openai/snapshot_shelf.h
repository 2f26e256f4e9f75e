#pragma once
// SnapshotShelf: conversations that clients have given a name, to go on from them again and again (from_snapshot). What
// is kept here is what was said; its state is an entry of the prefix cache like any other, and found like any other:
// a name whose state has gone is computed anew.
//
// Names belong to a tenant, who sees nobody else's. They live for their time since they were made, and no longer than
// the process.
//
// Bounds: kMostNames of a tenant, kMostBytes of text and token ids of all together. Who wants more is refused.
// Threading: any thread.

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace reprise::protocol::openai {

struct NamedSnapshot {
  std::string name{};
  std::string model{};       // as the engine called it
  Json beginning{};          // the members of a body that make its prompt: messages, tools, ... or prompt
  std::uint32_t tokens = 0;  // of its prompt, when it was named
  std::int64_t created = 0;  // seconds since 1970
  std::int64_t expires = 0;
};

class SnapshotShelf {
 public:
  static constexpr std::size_t kMostNames = 64;
  static constexpr std::size_t kMostBytes = 64u << 20;
  static constexpr std::chrono::seconds kLongest{7 * 24 * 3600};

  /// In the place of one of the same name. False: there would be more than there may be.
  [[nodiscard]] bool put(const std::string& tenant, NamedSnapshot snapshot, std::int64_t now);
  std::optional<NamedSnapshot> find(const std::string& tenant, const std::string& name, std::int64_t now);
  /// By name.
  std::vector<NamedSnapshot> all(const std::string& tenant, std::int64_t now);
  /// False: there is none.
  bool drop(const std::string& tenant, const std::string& name, std::int64_t now);

 private:
  struct Kept {
    NamedSnapshot snapshot;
    std::size_t bytes = 0;
  };
  using Names = std::map<std::string, Kept>;

  void expire(std::int64_t now);
  void take(Names& names, Names::iterator which);

  std::mutex mutex_;
  std::map<std::string, Names> tenants_;  // guarded by mutex_; none of them empty
  std::size_t bytes_ = 0;                 // guarded by mutex_
};

}  // namespace reprise::protocol::openai

#pragma once
// What is fetched from a hub, in one piece or into a file (hub.h has the rules).
//
// Threading: one thread at a time.

#include <cstddef>
#include <filesystem>
#include <string>

#include "tools/reprise/hub_name.h"

namespace reprise::tools {

struct HubSettings;

class HubTransfer {
 public:
  /// The settings must outlive it.
  explicit HubTransfer(const HubSettings& settings) : settings_(settings) {}

  /// The answer to a GET of this path. Throws std::runtime_error, which says what to do where a token may help.
  std::string text(const std::string& path, std::size_t most_bytes);
  /// The same into a file, unless it is there; `label` is what a bar of progress says. Throws std::runtime_error.
  void file(const std::string& path, const HubFile& what, const std::filesystem::path& target,
            const std::string& label);

 private:
  struct Fetched {
    long status = 0;
    std::string problem{};  // of the connection; empty: the answer came to its end
  };
  /// One try. `take` gets the status and the bytes as they come; false: no more.
  template <class Take>
  Fetched fetch(const std::string& path, std::uint64_t begin, Take take);
  std::string refusal(const std::string& path, long status) const;

  const HubSettings& settings_;
};

}  // namespace reprise::tools

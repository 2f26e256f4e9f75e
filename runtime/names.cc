#include "runtime/names.h"

#include <mutex>
#include <unordered_set>

namespace reprise::runtime {

const char* intern_name(const std::string& name, const char* fallback) {
  if (name.empty()) return fallback;
  static std::mutex mutex;
  static auto* names = new std::unordered_set<std::string>;  // never destroyed; nodes do not move
  std::lock_guard lock(mutex);
  const auto found = names->find(name);
  if (found != names->end()) return found->c_str();
  if (names->size() == kMaxNames) return fallback;
  return names->insert(name).first->c_str();
}

}  // namespace reprise::runtime

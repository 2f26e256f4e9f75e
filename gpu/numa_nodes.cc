#include "gpu/numa_nodes.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#if defined(__linux__)
#include <sched.h>
#endif

namespace reprise::gpu {
namespace {

constexpr int kMaxProcessors = 1 << 16;  // processor numbers must be below it

#if defined(__linux__)
/// Owns a cpu_set_t of kMaxProcessors bits; get() is null if the allocation failed.
class ProcessorSet {
 public:
  ProcessorSet() : set_(CPU_ALLOC(kMaxProcessors)) {
    if (set_ != nullptr) CPU_ZERO_S(bytes(), set_);
  }
  ~ProcessorSet() {
    if (set_ != nullptr) CPU_FREE(set_);
  }
  ProcessorSet(const ProcessorSet&) = delete;
  ProcessorSet& operator=(const ProcessorSet&) = delete;

  static std::size_t bytes() { return CPU_ALLOC_SIZE(kMaxProcessors); }
  cpu_set_t* get() const { return set_; }

 private:
  cpu_set_t* set_;
};
#endif

std::vector<int> allowed_of(std::vector<int> processors) {
#if defined(__linux__)
  const ProcessorSet allowed;
  if (allowed.get() == nullptr || sched_getaffinity(0, ProcessorSet::bytes(), allowed.get()) != 0) return {};
  std::erase_if(processors, [&](int processor) {
    return CPU_ISSET_S(static_cast<std::size_t>(processor), ProcessorSet::bytes(), allowed.get()) == 0;
  });
#endif
  return processors;
}

/// Returns 3 for "node3", nullopt for other names.
std::optional<int> node_number(const std::string& name) {
  constexpr std::string_view kPrefix = "node";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace

std::vector<int> processors_in(std::string_view list) {
  std::vector<int> processors;
  const char* at = list.data();
  const char* const end = at + list.size();
  const auto read = [&](int& number) {
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0 || number >= kMaxProcessors) return false;
    at = stop;
    return true;
  };
  for (int first = 0; read(first);) {
    int last = first;
    if (at != end && *at == '-' && (++at, !read(last))) break;
    for (int processor = first; processor <= last; ++processor) processors.push_back(processor);
    if (at == end || *at != ',') break;
    ++at;
  }
  return processors;
}

NumaNodes numa_nodes(const std::filesystem::path& folder) {
  std::map<int, std::vector<int>> nodes;  // by node number
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::optional<int> number = node_number(entry.path().filename().string());
    if (!number) continue;
    std::ifstream file(entry.path() / "cpulist");
    std::string list;
    std::getline(file, list);
    std::vector<int> processors = allowed_of(processors_in(list));
    if (!processors.empty()) nodes.emplace(*number, std::move(processors));
  }
  NumaNodes found;
  for (auto& [number, processors] : nodes) found.processors.push_back(std::move(processors));
  return found;
}

bool stay_on(const std::vector<int>& processors) {
#if defined(__linux__)
  const ProcessorSet wanted;
  if (wanted.get() == nullptr) return false;
  for (const int processor : processors) {
    CPU_SET_S(static_cast<std::size_t>(processor), ProcessorSet::bytes(), wanted.get());
  }
  return sched_setaffinity(0, ProcessorSet::bytes(), wanted.get()) == 0;
#else
  return processors.empty();
#endif
}

}  // namespace reprise::gpu

#pragma once
// Which model is to be served, where and how; and what holds for requests to it.
//
// Threading: plain values.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::actors {

/// An adapter to a model: a PEFT folder or a GGUF file.
struct AdapterSpec {
  std::string name;
  std::string path;
};

struct ModelSpec {
  std::string name;
  std::string path;
  std::string device{};  // a name that models/device.h knows; empty: the engine's own
  std::string compute = "auto";
  std::string kv_dtype = "auto";
  std::string isa{};
  std::vector<AdapterSpec> adapters{};  // to be loaded with it
};

struct RequestRules {
  std::chrono::milliseconds longest_wait{60'000};  // for admission
  std::uint32_t most_choices = 16;
  double verify_share = 0;      // of hits, recomputed cold and compared
  bool verify_inline = false;   // before the answer ends; else in idle time, if there is any
  bool prefill_history = true;  // of the next turn, in idle time
};

}  // namespace reprise::actors

#pragma once
// Waiting for what another thread brings about: long enough for the slowest machine under a sanitizer, not for ever.

#include <chrono>
#include <thread>

namespace reprise {

/// False: it did not hold within 30 seconds.
template <class Holds>
bool eventually(const Holds& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace reprise

#pragma once
// Clients that a workload consists of. Each has a number of requests to send, and goes on from what it was answered.
//
// Threading: one thread.

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "protocol/service.h"
#include "tools/lab/bench_cache_chat.h"

namespace reprise::tools {

/// A request, and what it needs to be judged.
struct WorkloadRequest {
  protocol::ChatPrompt chat{};
  std::uint32_t reply_tokens = 16;
  bool up_to_border = false;         // inputs that begin alike by chance are not what is asked for
  std::uint32_t movable_tokens = 0;  // of documents that were sent before, wherever they stood
};

class WorkloadClient {
 public:
  virtual ~WorkloadClient() = default;
  virtual bool done() const = 0;
  virtual WorkloadRequest next() = 0;
  virtual void answered(const BenchAnswer& answer) = 0;
};

using WorkloadClients = std::vector<std::unique_ptr<WorkloadClient>>;

/// Of the workload of that name, which must be one; `scale` times as many as usual, but at least a few.
WorkloadClients workload_clients(const std::string& name, const ChatWorld& world, std::uint64_t seed,
                                 double scale);

}  // namespace reprise::tools

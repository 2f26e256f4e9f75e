#pragma once
// RequestRoll: the requests that run, to be told when their model is lost, and to be looked at.
//
// Threading: any thread; a short lock.

#include <memory>
#include <mutex>
#include <vector>

#include "actors/request/request_actor.h"

namespace reprise::actors {

class RequestRoll {
 public:
  void add(runtime::RefOf<RequestActor> request, std::shared_ptr<const RequestMeter> meter);
  void tell_all(const ModelLost& lost);
  std::size_t size();
  /// Those whose clients still wait for something, the oldest first.
  std::vector<protocol::RunningRequest> running() const;

 private:
  struct Entry {
    runtime::RefOf<RequestActor> request;
    std::shared_ptr<const RequestMeter> meter;
  };

  mutable std::mutex mutex_;
  std::vector<Entry> requests_;
  std::size_t prune_at_ = 64;
};

}  // namespace reprise::actors

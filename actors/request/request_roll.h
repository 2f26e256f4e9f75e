#pragma once
// RequestRoll: the requests that run, to be told when their model is lost.
//
// Threading: any thread; a short lock.

#include <mutex>
#include <vector>

#include "actors/request/request_actor.h"

namespace reprise::actors {

class RequestRoll {
 public:
  void add(runtime::RefOf<RequestActor> request);
  void tell_all(const ModelLost& lost);
  std::size_t size();

 private:
  std::mutex mutex_;
  std::vector<runtime::RefOf<RequestActor>> requests_;
  std::size_t prune_at_ = 64;
};

}  // namespace reprise::actors

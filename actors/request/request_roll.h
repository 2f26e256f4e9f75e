#pragma once
// RequestRoll: the requests that run, to be told when their model is lost, and to be looked at.
//
// Threading: any thread; a short lock.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/request/request_actor.h"

namespace reprise::actors {

class RequestRoll {
 public:
  struct Entry {
    runtime::RefOf<RequestActor> request;
    std::shared_ptr<const RequestMeter> meter;
    std::string reply_id{};  // empty: none
    std::string tenant{};
  };

  void add(Entry entry);
  void tell_all(const ModelLost& lost);
  /// Sends EndReasoning to the tenant's requests whose replies have this id. Returns false if none is under way.
  bool end_reasoning(const std::string& reply_id, const std::string& tenant);
  std::size_t size();
  /// Those whose clients still wait for something, the oldest first.
  std::vector<protocol::RunningRequest> running() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Entry> requests_;
  std::size_t prune_at_ = 64;
};

}  // namespace reprise::actors
